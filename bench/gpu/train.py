"""A training loop for `explain.py`, with at most one thing wrong. The lines that matter have a mark, so that what gpuwhy
says can be checked against this text."""

import mmap
import os
import sys
import time

import torch

MODE = sys.argv[1]
SECONDS = float(sys.argv[2])
DATA = sys.argv[3] if len(sys.argv) > 3 else None
WIDTH, DEPTH, BATCH = 4096, 6, 2048

device = torch.device("cuda:0")
layers = [layer for _ in range(DEPTH) for layer in (torch.nn.Linear(WIDTH, WIDTH), torch.nn.ReLU())]
model = torch.nn.Sequential(*layers).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
loss_of = torch.nn.MSELoss()
kept = []
at = 0


def read_batch():
    """Past the page cache, so that the disk's pace is the loader's."""
    global at
    file = os.open(DATA, os.O_RDONLY | os.O_DIRECT)
    buffer = mmap.mmap(-1, 32 << 20)
    os.preadv(file, [buffer], at)  # MARK loader
    os.close(file)
    at = (at + (32 << 20)) % (os.path.getsize(DATA) - (32 << 20)) // 4096 * 4096


def step(inputs, targets, number):
    optimizer.zero_grad(set_to_none=True)
    loss = loss_of(model(inputs), targets)
    loss.backward()
    optimizer.step()
    if MODE == "item":
        loss.item()  # MARK item
    if MODE == "leak":
        kept.append(torch.empty(24 << 20, dtype=torch.float32, device=device))  # MARK leak
    if number % 100 == 99:
        torch.cuda.synchronize()  # MARK log


def main():
    inputs = torch.randn(BATCH, WIDTH, device=device)
    targets = torch.randn(BATCH, WIDTH, device=device)
    for number in range(20):
        step(inputs, targets, number)
    torch.cuda.synchronize()
    kept.clear()
    began, number = time.time(), 0
    while time.time() - began < SECONDS:
        if MODE == "loader":
            read_batch()
        step(inputs, targets, number)
        number += 1
    torch.cuda.synchronize()
    print(f"{MODE}: {number / (time.time() - began):.1f} steps a second", flush=True)


main()
