#!/usr/bin/env python3
"""Which probe a training step on a real GPU pays for: rounds of traces with one part of the probes each.

    ablate.py GPUWHY OUT.json [--rounds 12] [--run 3] [--model eager]

As `pairs.py`, with all probes and no budget (every call is watched), and with some of them. Prints a table: what a step takes
with each, as a ratio to untraced turns, with its 95% interval."""

import argparse
import json
import pathlib
import tempfile

from turns import CONTROL, Stepping, compared, plain_step_ms, rounds_of

KINDS = {
    "all": [],
    "cuda": ["--probes", "cuda"],
    "cuda without stacks": ["--probes", "cuda", "--stacks", "off"],
    "sched": ["--probes", "sched"],
    "sched, cpu": ["--probes", "sched,cpu"],
    "sched, mem, irq, io, tcp": ["--probes", "sched,mem,irq,io,tcp"],
}


def options_of():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("gpuwhy")
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--run", type=float, default=3, help="seconds a trace")
    parser.add_argument("--model", default="eager", choices=["eager", "graphs", "gpu_bound"])
    return parser.parse_args()


def main():
    options = options_of()
    kinds = {kind: ["--budget", "100%", *flags] for kind, flags in KINDS.items()}
    with tempfile.TemporaryDirectory() as folder:
        stepping = Stepping(options.model, folder)
        rounds = rounds_of(stepping, options.gpuwhy, kinds, options.rounds, options.run, folder)
        steps = stepping.end()
    result = {"model": options.model, "run_s": options.run, "step_ms": plain_step_ms(steps, rounds)}
    for kind in [CONTROL, *kinds]:
        result[kind] = compared(steps, rounds, kind)
        ratio = result[kind]["ratio"]
        print(f"{kind:26} {ratio['mean']:.4f} [{ratio['low']:.4f}, {ratio['high']:.4f}]", flush=True)
    options.out.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
