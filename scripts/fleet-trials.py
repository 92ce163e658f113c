#!/usr/bin/env python3
"""Faults planted in one of eight simulated ranks under real eBPF, and whether the fleet names that rank, how soon, the cause and the line.

fleet-trials.py GPUWHY GPUWHY-FLEET FOLDER-OF-THE-STAND-IN [--only NAME]... [--times N] [--patient] [--quiet-for SECONDS]
Prints one line of JSON for each trial; ends with 1 if one of them was not as it should be.
"""

import argparse
import json
import os
import random
import socket
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from onehost import PATIENCE_S, RANKS, Agent, Fleet, Ranks, until

CLUSTER = "trial"
# Four kernels of 8 ms: a step of about 33 ms.
STEP_US = 4 * 8_000
STEP = ["--kernel-us", STEP_US // 4]
# Two intervals of pushes, or this.
SOON_S = 5
# Who takes the victim's CPU.
THIEVES = 2
# A hang is named within this.
HANG_S = 10


class Trial:
    """What is wrong with one rank, and what must be said of it."""

    def __init__(self, fault=(), all_ranks=(), classes=(), function=None, beside=None, before=(), hang=None):
        self.fault, self.all_ranks, self.classes, self.function = list(fault), list(all_ranks), classes, function
        self.beside, self.before, self.hang = beside, list(before), hang

    def options(self, rank, victim):
        words = ["--steps", 1_000_000, *STEP, *self.all_ranks]
        if self.beside is theft:
            words += ["--cpu", cpus()[rank - victim]]
        if rank == victim:
            words += self.fault
        elif self.beside is loss:
            words += ["--fetch", f"{FAR}:{CLEAN_PORT}"]
        return words


def cpus():
    """The victim has the first one."""
    return sorted(os.sched_getaffinity(0))


@contextmanager
def theft():
    """Others on the victim's CPU."""
    program = f"import os\nos.sched_setaffinity(0, {{{cpus()[0]}}})\nwhile True: pass"
    hogs = [subprocess.Popen([sys.executable, "-c", program]) for _ in range(THIEVES)]
    try:
        yield
    finally:
        for hog in hogs:
            hog.kill()
            hog.wait()


NEAR, FAR, LOSSY_PORT, CLEAN_PORT = "10.88.0.1", "10.88.0.2", 4711, 4712
LOST_PERCENT = 10
WELL_S = 10


def run(words):
    subprocess.run(words.split(), check=True)


@contextmanager
def loss():
    """A store of batches behind a cable that loses some of the segments to and from one port."""
    near, far = "gpuwhy-trial-near", "gpuwhy-trial-far"
    store = None
    try:
        for words in (
            f"ip netns add {near}", f"ip netns add {far}", f"ip link add cable netns {near} type veth peer name cable netns {far}",
            f"ip -n {near} address add {NEAR}/24 dev cable", f"ip -n {far} address add {FAR}/24 dev cable",
            f"ip -n {near} link set cable gso_max_segs 1", f"ip -n {far} link set cable gso_max_segs 1",
            f"ip -n {near} link set cable up", f"ip -n {far} link set cable up", f"ip -n {near} link set lo up",
            f"ip netns exec {far} nft add table inet lossy",
            f"ip netns exec {far} nft add chain inet lossy arriving {{ type filter hook input priority 0 ; }}",
            f"ip netns exec {far} nft add chain inet lossy leaving {{ type filter hook output priority 0 ; }}",
        ):
            run(words)
        store = subprocess.Popen(["ip", "netns", "exec", far, sys.executable, __file__, "--store"])
        time.sleep(0.5)

        def begin():
            for way in ("arriving tcp dport", "leaving tcp sport"):
                run(f"ip netns exec {far} nft add rule inet lossy {way} {LOSSY_PORT} numgen random mod 100 < {LOST_PERCENT} drop")

        yield begin
    finally:
        if store:
            store.kill()
            store.wait()
        for host in (near, far):
            subprocess.run(["ip", "netns", "delete", host], check=False)


def serve_batches():
    """Answers with a byte to each request of 16 KiB."""

    def answer(connection):
        # Until the rank ends.
        with suppress(ConnectionError):
            wanted = 1 << 14
            while got := len(connection.recv(wanted)):
                wanted -= got
                if not wanted:
                    connection.sendall(b"y")
                    wanted = 1 << 14

    def listen(port):
        listening = socket.create_server(("", port))
        while True:
            threading.Thread(target=answer, args=(listening.accept()[0],), daemon=True).start()

    threading.Thread(target=listen, args=(LOSSY_PORT,), daemon=True).start()
    listen(CLEAN_PORT)


def late(us):
    return Trial(["--late-us", us], classes=["self.sleep"], function="wait_for_batch")


TRIALS = {
    "sleep-5-percent": late(STEP_US // 20),
    "sleep-20-percent": late(STEP_US // 5),
    "sleep-80-ms": late(80_000),
    "compute-20-percent": Trial(["--decode-us", 500 + STEP_US // 5], ["--decode-us", 500], ["cpu.self"], "decode_batch"),
    "theft": Trial(all_ranks=["--decode-us", 5000], classes=["cpu.preempted"], function="decode_batch", beside=theft),
    "loss": Trial(["--fetch", f"{FAR}:{LOSSY_PORT}"], classes=["net.tcp"], function="fetch_batch", beside=loss,
                  before=["ip", "netns", "exec", "gpuwhy-trial-near"]),
    "hang": Trial(hang="missing", function="wait_for_checkpoint"),
    "hang-busy": Trial(["--hang-busy"], hang="missing", function="compute_for_ever"),
    "mismatch": Trial(hang="mismatch", function="step"),
}


def is_in(line, function):
    """`train.py:142 Trainer.load` is in `load`."""
    return line.split(" ")[-1].split(".")[-1] == function


def straggler(fleet, trial, victim, patient):
    """Until the right rank is named with everything that must be said, or it takes too long."""
    began = time.monotonic()
    told = {"named_after_s": None, "complete_after_s": None, "wrong": []}
    while time.monotonic() - began < PATIENCE_S / 2 and told["complete_after_s"] is None:
        time.sleep(0.2)
        verdicts = [one for one in fleet.ask("find_outlier_nodes", cluster_id=CLUSTER)["verdicts"] if one["kind"] == "straggler"]
        told["wrong"] += [one["said"] for one in verdicts if one["rank"] != victim]
        for verdict in verdicts:
            if verdict["rank"] != victim:
                continue
            after = round(time.monotonic() - began, 1)
            told["named_after_s"] = told["named_after_s"] or after
            told.setdefault("first_said", verdict["said"])
            told["said"] = verdict["said"]
            cause, place = verdict.get("cause") or {}, verdict.get("place") or {}
            if cause.get("class") in trial.classes and is_in(place.get("line", ""), trial.function):
                told["complete_after_s"] = after
    told["holds"] = not told["wrong"] and (told["complete_after_s"] or 1e9) <= (PATIENCE_S if patient else SOON_S)
    return told


def hang(fleet, trial, victim, patient, fault):
    until(fault.exists, "the fault did not come")
    told, began = {"named_after_s": None}, time.monotonic()
    while time.monotonic() - began < PATIENCE_S / 2 and not told["named_after_s"]:
        time.sleep(0.2)
        for autopsy in fleet.ask("hang_autopsy", cluster_id=CLUSTER)["hangs"]:
            culprits = [one["rank"] for one in autopsy["culprits"]]
            told |= {"said": autopsy["said"], "culprits": culprits, "seq": autopsy["seq"]}
            stack = autopsy["culprits"][0].get("stack") or [] if culprits else []
            is_there = trial.function is None or any(is_in(line, trial.function) for line in stack)
            if culprits == [victim] and is_there:
                told |= {"named_after_s": round(time.monotonic() - began, 1), "stack": stack[:6]}
    told["holds"] = (told["named_after_s"] or 1e9) <= (PATIENCE_S if patient else HANG_S)
    return told


def play(options, name):
    trial, victim = TRIALS[name], random.randrange(RANKS)
    if trial.beside is theft and len(cpus()) < RANKS:
        return {"trial": name, "skipped": "each rank needs a CPU of its own"}
    steps = random.randrange(60, 300)
    fault = {"missing": ["--hang-at", steps], "mismatch": ["--mismatch-at", steps]}.get(trial.hang, [])
    words = lambda rank: trial.options(rank, victim) + (fault if rank == victim else [])
    # What was started last ends first.
    with tempfile.TemporaryDirectory(prefix="gpuwhy-trial-") as folder, ExitStack() as ending:
        folder = Path(folder)
        fleet = ends_with(ending, Fleet(options.fleet, folder))
        begin = ending.enter_context(trial.beside()) if trial.beside else None
        ranks = ends_with(ending, Ranks(options.stand_in, folder, words, trial.before))
        ends_with(ending, Agent(options.gpuwhy, folder, fleet, ranks.pids, CLUSTER))
        ranks.go()
        if begin:
            # It befalls a job that runs well.
            time.sleep(WELL_S)
            begin()
        common = fleet, trial, victim, options.patient
        told = hang(*common, folder / "id.fault") if trial.hang else straggler(*common)
        return {"trial": name, "rank": victim} | told


def ends_with(ending, one):
    """Ends when all does."""
    ending.callback(one.end)
    return one


def play_quiet(options):
    """Equal ranks with noise: nobody may be named."""
    words = lambda rank: ["--steps", 1_000_000, *STEP, "--decode-us", 300]
    with tempfile.TemporaryDirectory(prefix="gpuwhy-trial-") as folder, ExitStack() as ending:
        folder, named, asked = Path(folder), {}, 0
        fleet = ends_with(ending, Fleet(options.fleet, folder))
        ranks = ends_with(ending, Ranks(options.stand_in, folder, words))
        ends_with(ending, Agent(options.gpuwhy, folder, fleet, ranks.pids, CLUSTER))
        ranks.go()
        began = time.monotonic()
        while time.monotonic() - began < options.quiet_for:
            time.sleep(0.5)
            asked += 1
            for verdict in fleet.ask("find_outlier_nodes", cluster_id=CLUSTER)["verdicts"]:
                if verdict["kind"] == "straggler":
                    named.setdefault(verdict["rank"], [round(time.monotonic() - began, 1), verdict["said"]])
        # Silence says nothing of a fleet that has heard nothing.
        heard = fleet.ask("collectives", cluster_id=CLUSTER)["calls"] > 0
        return {"trial": "quiet", "seconds": options.quiet_for, "asked": asked, "named": named, "heard": heard, "holds": heard and not named}


def main():
    if sys.argv[1:] == ["--store"]:
        return serve_batches()
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("gpuwhy")
    parser.add_argument("fleet")
    parser.add_argument("stand_in", type=lambda word: Path(word).resolve())
    parser.add_argument("--only", action="append", choices=TRIALS, help="this trial alone")
    parser.add_argument("--times", type=int, default=1, help="each trial so many times, with another rank each time")
    parser.add_argument("--patient", action="store_true", help="how soon does not count, as on a machine that does other things meanwhile")
    parser.add_argument("--quiet-for", type=int, default=0, help="instead: equal ranks for so many seconds")
    options = parser.parse_args()
    names = [name for name in options.only or TRIALS for _ in range(options.times)]
    held = True
    for told in [play_quiet(options)] if options.quiet_for else (play(options, name) for name in names):
        print(json.dumps(told), flush=True)
        held &= told.get("holds", True)
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())
