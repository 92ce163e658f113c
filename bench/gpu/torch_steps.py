"""A small transformer training loop. Runs rounds of steps when told to on stdin and prints each round's step times,
so that a driver can alternate traced and untraced rounds within one process."""
import json
import sys
import time

import torch
from torch import nn

STEPS = int(sys.argv[1]) if len(sys.argv) > 1 else 60


def build():
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(d_model=512, nhead=8, dim_feedforward=2048, batch_first=True)
    model = nn.TransformerEncoder(layer, num_layers=4).cuda().bfloat16()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    batch = torch.randn(8, 256, 512, device="cuda", dtype=torch.bfloat16)
    return model, optimizer, batch


def step(model, optimizer, batch):
    optimizer.zero_grad(set_to_none=True)
    loss = model(batch).float().pow(2).mean()
    loss.backward()
    optimizer.step()
    torch.cuda.synchronize()


def launches(n):
    x = torch.zeros(16, device="cuda")
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(n):
        x.add_(1.0)
    torch.cuda.synchronize()
    return (time.perf_counter() - start) / n * 1e6


def main():
    state = build()
    for _ in range(20):
        step(*state)
    launches(10_000)
    print("ready", flush=True)
    for _ in sys.stdin:
        times = []
        for _ in range(STEPS):
            start = time.perf_counter()
            step(*state)
            times.append((time.perf_counter() - start) * 1e3)
        print(json.dumps({"step_ms": times, "launch_us": launches(20_000)}), flush=True)


main()
