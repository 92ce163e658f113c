#!/usr/bin/env python3
"""What watching costs a training step on a real GPU: turns of traced and untraced steps of one process.

    pairs.py GPUWHY OUT.json [--rounds 24] [--turn 3] [--model eager|graphs|gpu_bound] [--budget 1%] [--flags "..."]

One process steps all the time and writes down when each step ended. Beside it a trace of that process is started and ended in
turns, and in other turns nothing is (the control). Each traced turn is compared with the untraced ones on both sides of it, so
that a machine that gets slower for seconds slows both; a control turn is compared in the same way. Prints the mean ratio of
each kind with its 95% interval."""

import argparse
import json
import os
import pathlib
import signal
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
# Steps that end so soon after a turn began, or before it ends, may lie in two turns.
EDGE_S = 0.1


def options_of():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("gpuwhy")
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=24)
    parser.add_argument("--turn", type=float, default=3, help="seconds a turn")
    parser.add_argument("--model", default="eager", choices=["eager", "graphs", "gpu_bound"])
    parser.add_argument("--budget", default=None)
    parser.add_argument("--flags", default="", help="more flags of `trace`")
    return parser.parse_args()


def traced_turn(options, pid, folder):
    """The span of a trace, and what it counted: from when it says that it runs until it is told to end."""
    db = pathlib.Path(folder) / f"{time.monotonic_ns()}.db"
    flags = ["--budget", options.budget] if options.budget else []
    command = [options.gpuwhy, "trace", "--json", "--pid", str(pid), "--out", str(db), *flags, *options.flags.split()]
    asked = time.monotonic()
    trace = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    for line in trace.stdout:
        if json.loads(line).get("type") == "started":
            break
    began = time.monotonic()
    time.sleep(options.turn)
    ended = time.monotonic()
    trace.send_signal(signal.SIGINT)
    trace.stdout.read()
    used = os.wait4(trace.pid, 0)[2]
    trace.returncode = 0
    gone = time.monotonic()
    db.unlink(missing_ok=True)
    return {"span": (began, ended), "start_s": began - asked, "stop_s": gone - ended, "cpu_s": used.ru_utime + used.ru_stime,
            "cpu_share": (used.ru_utime + used.ru_stime) / (gone - asked), "rss_mb": used.ru_maxrss / 1024}


def plain_turn(options):
    began = time.monotonic()
    time.sleep(options.turn)
    return {"span": (began, time.monotonic())}


def mean_step_ms(ends, span):
    within = [end for end in ends if span[0] + EDGE_S <= end <= span[1] - EDGE_S]
    return (within[-1] - within[0]) * 1e3 / (len(within) - 1)


def interval(values):
    mean = statistics.mean(values)
    error = 1.96 * statistics.stdev(values) / len(values) ** 0.5
    return {"mean": round(mean, 4), "low": round(mean - error, 4), "high": round(mean + error, 4), "rounds": len(values)}


def main():
    options = options_of()
    with tempfile.TemporaryDirectory() as folder:
        log = pathlib.Path(folder) / "steps"
        program = subprocess.Popen([sys.executable, str(HERE / "stepping.py"), options.model, str(log)])
        while not log.exists():
            if program.poll() is not None:
                raise SystemExit("the stepping program ended early")
            time.sleep(0.05)
        turns = []
        for _ in range(options.rounds):
            turns += [("plain", plain_turn(options)), ("traced", traced_turn(options, program.pid, folder)),
                      ("plain", plain_turn(options)), ("control", plain_turn(options))]
        turns.append(("plain", plain_turn(options)))
        program.send_signal(signal.SIGTERM)
        program.wait()
        ends = [float(line) for line in log.read_text().split()]
    means = [mean_step_ms(ends, turn["span"]) for _, turn in turns]
    result = {"model": options.model, "budget": options.budget, "flags": options.flags, "turn_s": options.turn,
              "step_ms": round(statistics.median(mean for mean, (kind, _) in zip(means, turns) if kind == "plain"), 3)}
    for kind in ("traced", "control"):
        ratios = [2 * means[at] / (means[at - 1] + means[at + 1]) for at, (of, _) in enumerate(turns) if of == kind]
        result[kind] = interval(ratios)
    traced = [turn for kind, turn in turns if kind == "traced"]
    for name in ("start_s", "stop_s", "cpu_share", "rss_mb"):
        result[name] = round(statistics.median(turn[name] for turn in traced), 3)
    options.out.write_text(json.dumps(result, indent=1) + "\n")
    print(json.dumps(result))


if __name__ == "__main__":
    main()
