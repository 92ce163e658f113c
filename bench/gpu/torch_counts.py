"""A known number of CUDA operations from PyTorch; prints the truth as one line of JSON.

Waits for the file named on the command line before the counted part, so that a tracer can be attached first."""
import json
import os
import sys
import time

import torch

LAUNCHES, SYNCS, ITEMS, COPIES, ALLOCATIONS = 50_000, 500, 300, 200, 20


def launch(x):
    for _ in range(LAUNCHES):
        x.add_(1.0)


def synchronise(stream):
    for _ in range(SYNCS):
        stream.synchronize()


def items(x):
    for _ in range(ITEMS):
        x.item()


def copies(host, device):
    for _ in range(COPIES):
        device.copy_(host, non_blocking=True)


def allocations():
    kept = []
    for _ in range(ALLOCATIONS):
        # Larger than what the caching allocator keeps in one piece: each is a cudaMalloc of its own.
        kept.append(torch.empty(64 << 20, dtype=torch.uint8, device="cuda"))
    return kept


def main():
    gate = sys.argv[1] if len(sys.argv) > 1 else None
    x = torch.zeros(1024, device="cuda")
    scalar = torch.zeros((), device="cuda")
    host = torch.zeros(1 << 20, dtype=torch.uint8).pin_memory()
    device = torch.zeros(1 << 20, dtype=torch.uint8, device="cuda")
    stream = torch.cuda.Stream()
    x.add_(1.0)
    scalar.item()
    device.copy_(host, non_blocking=True)
    torch.cuda.synchronize()
    if gate:
        with open(gate + ".ready", "w") as ready:
            ready.write(str(os.getpid()))
        while not os.path.exists(gate):
            time.sleep(0.01)
    launch(x)
    torch.cuda.synchronize()
    synchronise(stream)
    items(scalar)
    copies(host, device)
    torch.cuda.synchronize()
    kept = allocations()
    print(json.dumps({
        "pid": os.getpid(),
        "python_process": sys.executable,
        "ops": {
            "cuLaunchKernel": LAUNCHES,
            "cudaDeviceSynchronize": 2,
            # item() is one copy to the host and one synchronisation of its stream.
            "cudaStreamSynchronize": SYNCS + ITEMS,
            "cudaMemcpyAsync": ITEMS + COPIES,
            "cudaMalloc": ALLOCATIONS,
        },
        "bytes": {"cudaMalloc": sum(t.numel() for t in kept), "cudaMemcpyAsync": (COPIES << 20) + 4 * ITEMS},
    }), flush=True)


main()
