"""A small PyTorch program whose lines are known: each marked line makes the calls that its mark names.

    python3 bench/gpu/torch_lines.py SECONDS [STEPS]"""
import sys
import threading
import time

import torch


class Block(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.first = torch.nn.Linear(width, width)
        self.second = torch.nn.Linear(width, width)

    def forward(self, x):
        x = self.first(x)  # mark: first
        x = torch.relu(x)  # mark: relu
        return self.second(
            x  # the call's line is the one above
        )


class Model(torch.nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.blocks = torch.nn.ModuleList(Block(width) for _ in range(depth))

    def forward(self, x):
        for block in self.blocks:
            x = block(x)  # mark: block
        return x


def train(model, optimizer, data):
    optimizer.zero_grad()
    loss = model(data).square().mean()
    loss.backward()  # mark: backward
    optimizer.step()  # mark: step
    return loss.item()  # mark: item


def fill(values):
    for value in values:
        yield torch.full((1024, 1024), value, device="cuda")  # mark: generator


def spin(stop):
    while not stop.is_set():
        sum(range(1000))


def main():
    seconds = float(sys.argv[1])
    model = Model(1024, 4).cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    data = torch.randn(256, 1024, device="cuda")
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        train(model, optimizer, data)  # mark: train
        kept = list(fill([1.0, 2.0]))
        del kept
        torch.cuda.empty_cache()  # mark: empty_cache
    stop = threading.Event()
    keeper = threading.Thread(target=spin, args=(stop,), name="keeper")
    keeper.start()
    until = time.monotonic() + 2
    while time.monotonic() < until:
        train(model, optimizer, data)
    stop.set()
    keeper.join()


if __name__ == "__main__":
    main()
