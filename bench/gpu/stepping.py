"""Steps of a model without end, for `turns.py`: stepping.py eager|graphs|gpu_bound LOG. Writes of each step when it ended, how
long it took, and how long a fixed loop of Python took after it."""

import signal
import sys
import time

import torch

MODEL, LOG = sys.argv[1], sys.argv[2]


# Turns of the loop that tells how fast the CPU is: a hundredth of a step.
FIXED = 3000


class Stop(Exception):
    """It was told to end."""


def stop(*_):
    raise Stop


def eager():
    """Six layers of a transformer, one launch at a time: some 330 probed calls a step."""
    layer = torch.nn.TransformerEncoderLayer(512, 8, 2048, batch_first=True, device="cuda", dropout=0.0)
    model = torch.nn.TransformerEncoder(layer, 6)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    inputs = torch.randn(8, 64, 512, device="cuda")

    def step():
        optimizer.zero_grad(set_to_none=True)
        model(inputs).square().mean().backward()
        optimizer.step()

    return step


def graphs():
    """Replays of one graph, a few milliseconds each."""
    left = torch.randn(2048, 2048, device="cuda")
    graph = torch.cuda.CUDAGraph()
    torch.matmul(left, left)
    torch.cuda.synchronize()
    with torch.cuda.graph(graph):
        for _ in range(20):
            left.copy_((left @ left).clamp(-1, 1))

    def step():
        graph.replay()
        torch.cuda.synchronize()

    return step


def gpu_bound():
    left = torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16)
    out = torch.empty_like(left)

    def step():
        for _ in range(18):
            torch.matmul(left, left, out=out)
        torch.cuda.synchronize()

    return step


def fixed_loop():
    total = 0
    for value in range(FIXED):
        total += value
    return total


def main():
    step = {"eager": eager, "graphs": graphs, "gpu_bound": gpu_bound}[MODEL]()
    for _ in range(50):
        step()
    torch.cuda.synchronize()
    signal.signal(signal.SIGTERM, stop)
    steps = []
    open(LOG, "w").close()
    try:
        while True:
            began = time.monotonic()
            step()
            end = time.monotonic()
            fixed_loop()
            steps.append((end, end - began, time.monotonic() - end))
    except Stop:
        with open(LOG, "w") as file:
            file.writelines(f"{end} {seconds} {loop_seconds}\n" for end, seconds, loop_seconds in steps)


main()
