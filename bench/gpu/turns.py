"""Turns of traced and untraced steps of one process on a real GPU: what `pairs.py` and `ablate.py` compare.

One process steps all the time and writes down when each step ended and how long a fixed loop of Python took in it, which tells
how fast the CPU was. Beside it traces of that process are started and ended, in rounds: each kind of turn comes once in a
round, in random order, and is compared with the plain turns of its round alone."""

import json
import os
import pathlib
import random
import signal
import statistics
import subprocess
import sys
import threading
import time
from collections import namedtuple

HERE = pathlib.Path(__file__).resolve().parent
# Steps that end so soon after a turn began, or before it ends, may lie in two turns.
EDGE_S = 0.1
PLAIN, CONTROL = "plain", "control"
START_TIMEOUT_S = 120
# In its first seconds an agent learns the program.
SETTLING_SECONDS = 2

Step = namedtuple("Step", "end seconds loop_seconds")


class Stepping:
    """The process that steps, from when it is in its loop until it is told to end."""

    def __init__(self, model, folder, cpus=None):
        self.log = pathlib.Path(folder) / "steps"
        pinned = ["taskset", "-c", cpus] if cpus else []
        self.process = subprocess.Popen([*pinned, sys.executable, str(HERE / "stepping.py"), model, str(self.log)])
        until = time.monotonic() + START_TIMEOUT_S
        while not self.log.exists():
            if self.process.poll() is not None or time.monotonic() > until:
                raise SystemExit("the stepping program did not come to its loop")
            time.sleep(0.05)

    def end(self):
        """All its steps."""
        self.process.send_signal(signal.SIGTERM)
        self.process.wait()
        return [Step(*map(float, line.split())) for line in self.log.read_text().splitlines()]


def plain_turn(seconds):
    began = time.monotonic()
    time.sleep(seconds)
    span = (began, time.monotonic())
    return {"span": span, "whole": span}


def traced_turn(gpuwhy, pid, flags, seconds, db):
    """A trace of so many seconds. `span` is from when it says that it runs until it is told to end; `whole` has its start and
    its end as well."""
    command = [gpuwhy, "trace", "--json", "--pid", str(pid), "--out", str(db), *flags]
    asked = time.monotonic()
    trace = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    for line in trace.stdout:
        if json.loads(line).get("type") == "started":
            break
    began = time.monotonic()
    own = []
    # What is not read is left out of the stream.
    reader = threading.Thread(target=lambda: own.extend(own_costs(trace.stdout)))
    reader.start()
    time.sleep(seconds)
    ended = time.monotonic()
    trace.send_signal(signal.SIGINT)
    used = os.wait4(trace.pid, 0)[2]
    trace.returncode = 0
    gone = time.monotonic()
    reader.join()
    answer = {"span": (began, ended), "whole": (asked, gone), "start_s": began - asked, "stop_s": gone - ended, "rss_mb": used.ru_maxrss / 1024}
    if own[SETTLING_SECONDS:]:
        answer["core_pct"] = 100 * statistics.median(own[SETTLING_SECONDS:])
    return answer


def own_costs(lines):
    """The agent's own CPU time, second by second, in cores."""
    for line in lines:
        told = json.loads(line)
        if told.get("type") == "sums":
            yield told["gpuwhy"]["cpu"]


def rounds_of(stepping, gpuwhy, kinds, rounds, seconds, folder, seed=1):
    """`kinds` are names with the flags of their traces. Each round has a turn of every kind, a plain one and a control."""
    drawn = random.Random(seed)
    done = []
    for number in range(rounds):
        turns = {}
        for kind in drawn.sample([PLAIN, CONTROL, *kinds], len(kinds) + 2):
            if kind in kinds:
                db = pathlib.Path(folder) / f"{kind}-{number}.db".replace("/", "-").replace(" ", "-")
                turns[kind] = dict(traced_turn(gpuwhy, stepping.process.pid, kinds[kind], seconds, db), db=db)
            else:
                turns[kind] = plain_turn(seconds)
        done.append(turns)
    return done


def mean_step(steps, span):
    """What a step took within a span, in milliseconds, as it is and with the speed of the CPU taken out."""
    within = [step for step in steps if span[0] + EDGE_S <= step.end - step.seconds and step.end <= span[1] - EDGE_S]
    if not within:
        raise SystemExit("a turn without a step: make it longer")
    step_ms = statistics.mean(step.seconds for step in within) * 1e3
    loop_ms = statistics.mean(step.loop_seconds for step in within) * 1e3
    return step_ms, step_ms / loop_ms


def interval(values):
    mean = statistics.mean(values)
    error = 1.96 * statistics.stdev(values) / len(values) ** 0.5 if len(values) > 1 else float("nan")
    return {"mean": round(mean, 4), "low": round(mean - error, 4), "high": round(mean + error, 4), "rounds": len(values)}


def compared(steps, rounds, kind):
    """A kind of turn against the plain ones of its rounds: with the speed of the CPU taken out (`ratio`), as it is (`raw`),
    and with the start and the end of traces (`whole`)."""
    references = [PLAIN] if kind == CONTROL else [PLAIN, CONTROL]
    answer = {}
    for name, span, part in [("ratio", "span", 1), ("raw", "span", 0), ("whole", "whole", 1)]:
        ratios = []
        for turns in rounds:
            reference = statistics.mean(mean_step(steps, turns[one][span])[part] for one in references)
            ratios.append(mean_step(steps, turns[kind][span])[part] / reference)
        answer[name] = interval(ratios)
    for name in ("start_s", "stop_s", "rss_mb", "core_pct"):
        values = [turns[kind][name] for turns in rounds if name in turns[kind]]
        if values:
            answer[name] = round(statistics.median(values), 3)
    return answer


def plain_step_ms(steps, rounds):
    return round(statistics.median(mean_step(steps, turns[PLAIN]["span"])[0] for turns in rounds), 3)
