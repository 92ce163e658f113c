#!/usr/bin/env python3
"""What a slice of watched calls costs a training step on a real GPU, and with it each call: steps within slices against steps
just before and after them, in one trace.

    slices.py GPUWHY OUT.json [--seconds 60] [--budget 1%] [--model eager] [--cpus 2-5]

Slices are short and many, so how fast the CPU is changes little between the steps that are compared. Prints the ratio with its
95% interval, the steps beside the edges of slices (attaching and detaching), the time by which slices make the program longer in
all, and what a call costs by that and by gpuwhy's own calculation."""

import argparse
import contextlib
import json
import pathlib
import sqlite3
import statistics
import tempfile
import time

from turns import Stepping, interval, traced_turn

# Steps so near to a slice may have traps that tell nothing; those further away say little about the speed of the CPU in it.
EDGE_S = 0.035
NEAR_S = 0.35
MIN_SLICE_S = 0.02


def options_of():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("gpuwhy")
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--budget", default="1%")
    parser.add_argument("--model", default="eager", choices=["eager", "graphs", "gpu_bound"])
    parser.add_argument("--cpus", help="of the program, as taskset takes them")
    return parser.parse_args()


def read(db, sql):
    with contextlib.closing(sqlite3.connect(db)) as connection:
        return connection.execute(sql).fetchall()


def mean(steps):
    return statistics.mean(step.seconds for step in steps)


def main():
    options = options_of()
    to_unix_s = time.time() - time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        db = pathlib.Path(folder) / "trace.db"
        stepping = Stepping(options.model, folder, options.cpus)
        turn = traced_turn(options.gpuwhy, stepping.process.pid, ["--budget", options.budget], options.seconds, db)
        steps = stepping.end()
        spans = read(db, "SELECT start_ns, end_ns FROM watch_slices WHERE class = 'launches' AND pid IS NULL ORDER BY start_ns")
        slices = [(start / 1e9 - to_unix_s, end / 1e9 - to_unix_s) for start, end in spans]
        # By gpuwhy's own calculation, of the thread that pays most.
        billed = read(db, "SELECT sum(cost_ns), sum(calls), avg(worst_thread_pct) FROM watch_costs")[0]

    # What lies between two times as a whole.
    def within(start, end):
        return [step for step in steps if step.end - step.seconds >= start and step.end <= end]

    ratios, edges, lost_s, watched_s = [], [], 0.0, 0.0
    for number, (start, end) in enumerate(slices):
        before = slices[number - 1][1] + EDGE_S if number else 0
        after = slices[number + 1][0] - EDGE_S if number + 1 < len(slices) else end + NEAR_S
        near = within(max(start - NEAR_S, before), start - EDGE_S) + within(end + EDGE_S, min(end + NEAR_S, after))
        inside = within(start, end)
        beside = within(start - EDGE_S, start) + within(end, end + EDGE_S)
        if end - start < MIN_SLICE_S or not near or not inside:
            continue
        usual = mean(near)
        ratios.append(mean(inside) / usual)
        edges += [mean(beside) / usual] if beside else []
        watched_s += end - start
        lost_s += (end - start) * (1 - usual / mean(inside)) + (2 * EDGE_S * (1 - usual / mean(beside)) if beside else 0)
    seconds = turn["span"][1] - turn["span"][0]
    result = {"model": options.model, "budget": options.budget, "cpus": options.cpus, "slices": len(ratios), "in_slices": interval(ratios),
              "beside_slices": interval(edges), "watched_pct": round(100 * watched_s / seconds, 2), "slices_cost_pct": round(100 * lost_s / seconds, 3),
              "step_ms": round(1e3 * statistics.median(step.seconds for step in steps), 3),
              "billed_us_a_call": round(billed[0] / max(billed[1], 1) / 1e3, 3), "billed_pct": round(billed[2] or 0, 3),
              **{name: round(turn[name], 3) for name in ("start_s", "stop_s", "rss_mb", "core_pct") if name in turn}}
    options.out.write_text(json.dumps(result, indent=1) + "\n")
    print(json.dumps(result))


if __name__ == "__main__":
    main()
