#!/usr/bin/env python3
"""What watching costs a training step on a real GPU, and how near the rate of launches that is told is to the true one.

    pairs.py GPUWHY OUT.json [--rounds 24] [--run 5] [--model eager|graphs|gpu_bound] [--budget 1%,3%] [--flags "..."]

Rounds of one process that steps all the time: traced with each budget, not traced, and not traced once more (the control).
Prints what a step takes in each kind of turn, as a ratio to the untraced turns of the same round, with its 95% interval: with
the speed of the CPU taken out (`ratio`), as it is (`raw`), and with the start and the end of the trace (`whole`)."""

import argparse
import json
import pathlib
import statistics
import subprocess
import tempfile
import time

from turns import CONTROL, Stepping, compared, interval, plain_step_ms, rounds_of, traced_turn

LAUNCHES = ("cuLaunchKernel", "cuLaunchKernelEx")
# A window begins so long after its trace: what came before is attaching.
AFTER_START_S = 0.5
EXACT_S = 4


def options_of():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("gpuwhy")
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=24)
    parser.add_argument("--run", type=float, default=5, help="seconds a trace")
    parser.add_argument("--window", type=float, default=2, help="seconds of a window whose launches are compared with the true ones")
    parser.add_argument("--model", default="eager", choices=["eager", "graphs", "gpu_bound"])
    parser.add_argument("--budget", default="1%", help="one or several, with commas between them")
    parser.add_argument("--flags", default="", help="more flags of `trace`")
    return parser.parse_args()


def utc(seconds):
    whole = int(seconds)
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(whole)) + f".{int((seconds - whole) * 1e9):09d}Z"


def launches_told(gpuwhy, db, span, to_unix_s):
    """Launches within a span of monotonic time: the number, and its interval where it is an estimate."""
    ends = ["--from", utc(span[0] + to_unix_s), "--to", utc(span[1] + to_unix_s)]
    done = subprocess.run([gpuwhy, "compare", str(db), str(db), "--json", *ends], capture_output=True, text=True, check=True)
    sides = [one["b"] for one in json.loads(done.stdout)["operations"] if one["op"] in LAUNCHES and one.get("b")]
    calls = [side.get("calls") for side in sides]
    if not sides or None in calls:
        return None
    ends = [side.get("calls_interval") or [side["calls"], side["calls"]] for side in sides]
    return sum(calls), sum(low for low, _ in ends), sum(high for _, high in ends)


def steps_within(steps, span):
    """How many steps a span has, with parts of those at its ends."""
    return sum(max(0.0, min(step.end, span[1]) - max(step.end - step.seconds, span[0])) / step.seconds for step in steps if step.end > span[0])


def rates(options, steps, spans, launches_a_step, to_unix_s):
    """What is told of each window against what was done in it."""
    errors, is_within, unknown = [], [], 0
    for db, (began, ended) in spans:
        start = began + AFTER_START_S
        while start + options.window <= ended:
            span = (start, start + options.window)
            start += options.window
            told = launches_told(options.gpuwhy, db, span, to_unix_s)
            if told is None:
                unknown += 1
                continue
            true = steps_within(steps, span) * launches_a_step
            errors.append(told[0] / true - 1)
            is_within.append(told[1] <= true <= told[2])
    if not errors:
        return {"windows": 0, "unknown": unknown}
    return {"windows": len(errors), "unknown": unknown, "mean_error_pct": interval([100 * error for error in errors]),
            "median_absolute_error_pct": round(100 * statistics.median(map(abs, errors)), 2), "within_5_pct": sum(abs(error) <= 0.05 for error in errors),
            "interval_contains": sum(is_within)}


def main():
    options = options_of()
    to_unix_s = time.time() - time.monotonic()
    kinds = {budget: ["--budget", budget, *options.flags.split()] for budget in options.budget.split(",")}
    with tempfile.TemporaryDirectory() as folder:
        stepping = Stepping(options.model, folder)
        exact_db = pathlib.Path(folder) / "exact.db"
        exact = traced_turn(options.gpuwhy, stepping.process.pid, ["--budget", "100%"], EXACT_S, exact_db)
        rounds = rounds_of(stepping, options.gpuwhy, kinds, options.rounds, options.run, folder)
        steps = stepping.end()
        result = {"model": options.model, "run_s": options.run, "flags": options.flags, "step_ms": plain_step_ms(steps, rounds),
                  CONTROL: compared(steps, rounds, CONTROL)}
        whole = (exact["span"][0] + AFTER_START_S, exact["span"][1])
        told = launches_told(options.gpuwhy, exact_db, whole, to_unix_s)
        result["launches_a_step"] = told and round(told[0] / steps_within(steps, whole), 3)
        for budget in kinds:
            result[budget] = compared(steps, rounds, budget)
            if told:
                spans = [(turns[budget]["db"], turns[budget]["span"]) for turns in rounds]
                result[budget]["rates"] = rates(options, steps, spans, result["launches_a_step"], to_unix_s)
    options.out.write_text(json.dumps(result, indent=1) + "\n")
    print(json.dumps(result))


if __name__ == "__main__":
    main()
