#!/usr/bin/env python3
"""What watching costs a training step on a real GPU, and how near the rate of launches that is told is to the true one.

    pairs.py GPUWHY OUT.json [--rounds 24] [--run 5] [--model eager|graphs|gpu_bound] [--budget 1%,3%] [--flags "..."] [--cpus 2-5]

Rounds of one process that steps all the time: traced with each budget, not traced, and not traced once more (the control).
Prints what a step takes in each kind of turn, as a ratio to the untraced turns of the same round, with its 95% interval: with
the speed of the CPU taken out (`ratio`), as it is (`raw`), and with the start and the end of the trace (`whole`)."""

import argparse
import contextlib
import json
import pathlib
import sqlite3
import statistics
import subprocess
import tempfile
import time

from turns import CONTROL, Stepping, compared, interval, plain_step_ms, rounds_of, traced_turn

LAUNCHES = ("cuLaunchKernel", "cuLaunchKernelEx")
# Of a trace in which every call is counted, what comes so long after its start is taken.
AFTER_START_S = 1
EXACT_S = 4


def options_of():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("gpuwhy")
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=24)
    parser.add_argument("--run", type=float, default=5, help="seconds a trace")
    parser.add_argument("--model", default="eager", choices=["eager", "graphs", "gpu_bound"])
    parser.add_argument("--budget", default="1%", help="one or several, with commas between them")
    parser.add_argument("--flags", default="", help="more flags of `trace`")
    parser.add_argument("--cpus", help="of the program, as taskset takes them")
    return parser.parse_args()


def session_of(db, to_unix_s):
    """When a trace began and ended, in monotonic time."""
    with contextlib.closing(sqlite3.connect(db)) as connection:
        began, ended = connection.execute("SELECT min(start_ns), max(end_ns) FROM sessions").fetchone()
    return began / 1e9 - to_unix_s, ended / 1e9 - to_unix_s


def utc(seconds):
    whole = int(seconds)
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(whole)) + f".{int((seconds - whole) * 1e9):09d}Z"


def launches_told(gpuwhy, db, split, to_unix_s):
    """Launches before and after a time: for each the number, and its interval where it is an estimate, or None."""
    command = [gpuwhy, "compare", str(db), "--split", utc(split + to_unix_s), "--json"]
    operations = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)["operations"]
    told = []
    for name in ("a", "b"):
        sides = [one[name] for one in operations if one["op"] in LAUNCHES and one.get(name)]
        if not sides or any(side.get("calls") is None for side in sides):
            told.append(None)
            continue
        ends = [side.get("calls_interval") or [side["calls"], side["calls"]] for side in sides]
        told.append((sum(side["calls"] for side in sides), sum(low for low, _ in ends), sum(high for _, high in ends)))
    return told


def steps_within(steps, span):
    """How many steps a span has, with parts of those at its ends."""
    within = (min(step.end, span[1]) - max(step.end - step.seconds - step.loop_seconds, span[0]) for step in steps)
    whole = (step.seconds + step.loop_seconds for step in steps)
    return sum(max(0.0, part) / of for part, of in zip(within, whole))


def launches_a_step(options, steps, db, to_unix_s):
    """From a trace in which every call is counted; None where the program makes none."""
    began, ended = session_of(db, to_unix_s)
    told = launches_told(options.gpuwhy, db, began + AFTER_START_S, to_unix_s)[1]
    return told and round(told[0] / steps_within(steps, (began + AFTER_START_S, ended)), 3)


def rates(options, steps, dbs, a_step, to_unix_s):
    """What is told of each half of a trace against what was done in it."""
    errors, is_within, unknown = [], [], 0
    for db in dbs:
        began, ended = session_of(db, to_unix_s)
        split = (began + ended) / 2
        for told, span in zip(launches_told(options.gpuwhy, db, split, to_unix_s), [(began, split), (split, ended)]):
            if told is None:
                unknown += 1
                continue
            true = steps_within(steps, span) * a_step
            errors.append(told[0] / true - 1)
            is_within.append(told[1] <= true <= told[2])
    if not errors:
        return {"windows": 0, "unknown": unknown}
    return {"windows": len(errors), "unknown": unknown, "error_pct": interval([100 * error for error in errors]),
            "median_absolute_error_pct": round(100 * statistics.median(map(abs, errors)), 2), "within_5_pct": sum(abs(error) <= 0.05 for error in errors),
            "interval_contains": sum(is_within)}


def main():
    options = options_of()
    to_unix_s = time.time() - time.monotonic()
    kinds = {budget: ["--budget", budget, *options.flags.split()] for budget in options.budget.split(",")}
    with tempfile.TemporaryDirectory() as folder:
        stepping = Stepping(options.model, folder, options.cpus)
        exact_db = pathlib.Path(folder) / "exact.db"
        traced_turn(options.gpuwhy, stepping.process.pid, ["--budget", "100%"], EXACT_S, exact_db)
        rounds = rounds_of(stepping, options.gpuwhy, kinds, options.rounds, options.run, folder)
        steps = stepping.end()
        result = {"model": options.model, "run_s": options.run, "flags": options.flags, "step_ms": plain_step_ms(steps, rounds),
                  CONTROL: compared(steps, rounds, CONTROL)}
        a_step = launches_a_step(options, steps, exact_db, to_unix_s)
        result["launches_a_step"] = a_step
        for budget in kinds:
            result[budget] = compared(steps, rounds, budget)
            if a_step:
                result[budget]["rates"] = rates(options, steps, [turns[budget]["db"] for turns in rounds], a_step, to_unix_s)
    options.out.write_text(json.dumps(result, indent=1) + "\n")
    print(json.dumps(result))


if __name__ == "__main__":
    main()
