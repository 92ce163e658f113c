"""A training loop on the stand-in GPU that marks its steps, some of which are slow: train.py SIM STEPS FIRST LAST."""

import json
import os
import sys
import types

sys.path.insert(0, sys.argv[1])
import simwork
from gpuwhy_annotate import dropped, epoch, step

steps, first, last = map(int, sys.argv[2:5])
options = types.SimpleNamespace(copy_bytes=1 << 16, launches_per_step=5, malloc_every=0)
gpu = simwork.Gpu(12)
gpu.driver.simgpu_set(b"kernel_ns", 300_000)
model = simwork.Model(gpu, options)
with epoch(1):
    for number in range(steps):
        gpu.driver.simgpu_set(b"launch_sleep_ns", 3_000_000 if first <= number <= last else 0)
        with step(number, rank=0):
            model.step(number)
model.close()
print(json.dumps({"pid": os.getpid(), "steps": steps, "dropped": dropped()}), flush=True)
