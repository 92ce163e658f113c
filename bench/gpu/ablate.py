#!/usr/bin/env python3
"""Which probe a training step on a real GPU pays for: rounds of traces with one part of the probes each.

    ablate.py GPUWHY OUT.json [--rounds 12] [--run 3] [--model eager]

As `pairs.py`, with all probes and no budget (every call is watched), and with some of them. Prints a table: what a step takes
with each, as a ratio to untraced turns, with its 95% interval. Then how long each eBPF program ran a second, by the kernel's
clock, on all CPUs together: with every call watched, and with default options."""

import argparse
import json
import pathlib
import tempfile
import threading
import time

from program_times import clock_on, difference, program_times
from turns import CONTROL, Stepping, compared, plain_step_ms, rounds_of, traced_turn

KINDS = {
    "all": [],
    "cuda": ["--probes", "cuda"],
    "cuda without stacks": ["--probes", "cuda", "--stacks", "off"],
    "sched": ["--probes", "sched"],
    "sched, cpu": ["--probes", "sched,cpu"],
    "sched, mem, irq, io, tcp": ["--probes", "sched,mem,irq,io,tcp"],
}

# A trace has found and attached everything by then.
SETTLE_S = 2
TIMED_S = 4


def options_of():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("gpuwhy")
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--run", type=float, default=3, help="seconds a trace")
    parser.add_argument("--model", default="eager", choices=["eager", "graphs", "gpu_bound"])
    return parser.parse_args()


def run_times(options, stepping, flags, folder):
    """Of each program, microseconds and runs a second, most time first."""
    db = pathlib.Path(folder) / "times.db"
    db.unlink(missing_ok=True)
    trace = threading.Thread(target=traced_turn, args=(options.gpuwhy, stepping.process.pid, flags, SETTLE_S + TIMED_S + 1, db))
    with clock_on():
        trace.start()
        time.sleep(SETTLE_S)
        before, began = program_times(), time.monotonic()
        time.sleep(TIMED_S)
        after, passed = program_times(), time.monotonic() - began
        trace.join()
    return {name: [round(ns / 1e3 / passed, 1), round(runs / passed, 1)] for name, (ns, runs) in difference(before, after).items()}


def main():
    options = options_of()
    kinds = {kind: ["--budget", "100%", *flags] for kind, flags in KINDS.items()}
    with tempfile.TemporaryDirectory() as folder:
        stepping = Stepping(options.model, folder)
        rounds = rounds_of(stepping, options.gpuwhy, kinds, options.rounds, options.run, folder)
        times = {"all": run_times(options, stepping, ["--budget", "100%"], folder), "default options": run_times(options, stepping, [], folder)}
        steps = stepping.end()
    result = {"model": options.model, "run_s": options.run, "step_ms": plain_step_ms(steps, rounds)}
    for kind in [CONTROL, *kinds]:
        result[kind] = compared(steps, rounds, kind)
        ratio = result[kind]["ratio"]
        print(f"{kind:26} {ratio['mean']:.4f} [{ratio['low']:.4f}, {ratio['high']:.4f}]", flush=True)
    result["us_and_runs_a_second"] = times
    for kind, programs in times.items():
        print(f"{kind}: {sum(us for us, _ in programs.values()) / 1e4:.3f}% of a CPU in programs")
        for name, (us, runs) in programs.items():
            print(f"    {name:16} {us:9.1f} us {runs:9.1f} runs a second")
    options.out.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
