"""A PyTorch program that makes known things happen, phase by phase, and prints what it did as one JSON line.

    torch_libraries.py GATE [--late]

Held at its gate before the phases: GATE.ready is written, and GATE awaited. With --late everything is warmed up before
the gate, so that a trace that begins there finds all kernels loaded."""
import gc
import json
import os
import sys
import time

import torch
import torch.distributed as dist
import torch.nn as nn

REPLAYS, ITEMS, COPIES, REDUCES, STEPS, COMPILED = 100, 100, 20, 30, 10, 50


def gate(path):
    open(path + ".ready", "w").close()
    while not os.path.exists(path):
        time.sleep(0.02)


def main():
    path, late = sys.argv[1], "--late" in sys.argv
    model = nn.TransformerEncoder(nn.TransformerEncoderLayer(512, 8, 2048, batch_first=True, dropout=0.0), 4).cuda().bfloat16()
    optimizer = torch.optim.AdamW(model.parameters())
    data = torch.randn(8, 128, 512, device="cuda", dtype=torch.bfloat16)
    fused = torch.compile(lambda a, b: (a * b + a).sin())
    small = torch.ones(1000, device="cuda")

    def step():
        optimizer.zero_grad()
        loss = model(data).float().pow(2).mean()
        loss.backward()
        optimizer.step()

    if late:
        step(), step(), fused(data, data), small.sum().item()
        torch.cuda.synchronize()
    gate(path)
    truth = {"pid": os.getpid(), "phases": {}, "reserved": {}}

    def phase(name, **made):
        torch.cuda.synchronize()
        # Long enough that each phase has windows of its own.
        truth["phases"][name] = dict(made, end_ns=time.time_ns())
        truth["reserved"][name] = torch.cuda.memory_reserved()
        time.sleep(1.2)

    phase("begin")
    for _ in range(STEPS):
        step()
    phase("training", steps=STEPS)
    for _ in range(ITEMS):
        small.sum().item()
    phase("item", items=ITEMS)
    square = torch.randn(64, 64, device="cuda")
    side = torch.cuda.Stream()
    with torch.no_grad(), torch.cuda.stream(side):
        (square @ square).relu() + 1
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.no_grad(), torch.cuda.graph(graph):
        answer = (square @ square).relu() + 1
    phase("capture", captures=1)
    for _ in range(REPLAYS):
        graph.replay()
    phase("replay", replays=REPLAYS)
    del graph, answer
    gc.collect()
    phase("graph destroyed")
    for _ in range(COMPILED):
        fused(data, data)
    phase("compiled", launches=COMPILED)
    pinned, pageable = torch.empty(1 << 20).pin_memory(), torch.empty(1 << 20)
    for _ in range(COPIES):
        pinned.cuda(non_blocking=True)
    phase("pinned", copies=COPIES, bytes=COPIES * (4 << 20))
    for _ in range(COPIES):
        pageable.cuda()
    phase("pageable", copies=COPIES, bytes=COPIES * (4 << 20))
    big = [torch.empty(256 << 20, dtype=torch.uint8, device="cuda") for _ in range(4)]
    phase("allocated")
    del big
    torch.cuda.empty_cache()
    phase("empty_cache")
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29555", RANK="0", WORLD_SIZE="1")
    dist.init_process_group("nccl", device_id=torch.device("cuda:0"))
    for _ in range(REDUCES):
        dist.all_reduce(small)
    phase("all_reduce", collectives=REDUCES)
    dist.broadcast(small, 0)
    group = dist.new_group([0])
    dist.all_reduce(small, group=group)
    phase("split", collectives=1)
    dist.destroy_process_group()
    phase("teardown")
    print(json.dumps(truth), flush=True)


main()
