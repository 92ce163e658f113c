"""Steps of a model without end, for `pairs.py`: stepping.py eager|graphs|gpu_bound LOG. Writes when each step ended."""

import signal
import sys
import time

import torch

MODEL, LOG = sys.argv[1], sys.argv[2]


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


def main():
    step = {"eager": eager, "graphs": graphs, "gpu_bound": gpu_bound}[MODEL]()
    for _ in range(50):
        step()
    torch.cuda.synchronize()
    signal.signal(signal.SIGTERM, stop)
    ends = []
    open(LOG, "w").close()
    try:
        while True:
            step()
            ends.append(time.monotonic())
    except Stop:
        with open(LOG, "w") as file:
            file.writelines(f"{end}\n" for end in ends)


main()
