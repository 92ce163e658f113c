"""Agents that are killed at any moment, and one whose disk is full."""

import random
import time

from agent import Agent
from host import check_trace, code_left, fill, left_of, small_disk
from workloads import Workloads

# A file for so many sessions, each of which a kill ended.
SESSIONS = 10


def killed(program, stand_in, folder, times, seconds, seed, report):
    chance = random.Random(seed)
    workloads = Workloads(stand_in, folder, seed)
    stop = folder / "stop"
    load = [workloads.start("--launches", 0, "--hz", 2_000, "--stop-file", stop) for _ in range(2)]
    end = time.monotonic() + seconds
    files, kills, early, left, behind, looks = set(), 0, 0, set(), 0, 0
    while kills < times and time.monotonic() < end:
        agent = Agent(program, folder / f"killed{kills // SESSIONS}.db", *chance.choice([(), ("--keep-all",), ("--stacks", "on")]))
        files.add(agent.out)
        # A third while they are still beginning.
        if chance.random() < 0.33:
            time.sleep(chance.uniform(0.0, 1.5))
            early += 1
        elif agent.await_attached():
            time.sleep(chance.uniform(0.0, 1.5))
        if not agent.is_running():
            report.note(f"an agent ended by itself with {agent.process.returncode}; see {agent.log.name}")
            report.fail("an agent ended by itself")
        left |= left_of(agent.kill())
        if kills % 5 == 0:
            found = code_left([one.pid for one in load], "libcuda.so.1")
            behind, looks = behind + (found or 0), looks + (found is not None)
        kills += 1
    alive = [one.poll() is None for one in load]
    stop.touch()
    for one in load:
        workloads.note("load", one, exact=False)
    report.check("agents killed (SIGKILL), of them before they were attached", f"{kills} of {times}, {early}", kills == times)
    report.check("workloads that ran on", f"{sum(alive)} of {len(alive)}", all(alive))
    report.check("eBPF programs and links left behind", len(left), not left)
    report.check("bytes of probed code left behind, in so many looks while nobody else traced", f"{behind}, {looks}", behind == 0 and looks > 0)
    # One that was killed before it made its tables is no trace, and said to be none.
    wrong = [found for path in sorted(files) if path.exists() and (found := check_trace(program, path))]
    report.check("trace files that open and are explained", f"{len(files) - len(wrong)} of {len(files)}", not wrong)
    for one in wrong:
        report.note(one)


def full_disk(program, stand_in, folder, report):
    """A trace on a disk that fills up, and has room again."""
    with small_disk(folder / "disk", "24m") as mounted:
        if not mounted:
            report.row("a full disk", "skipped: a tmpfs cannot be mounted")
            return
        disk = folder / "disk"
        workloads = Workloads(stand_in, folder, 1)
        stop = folder / "stop"
        load = workloads.start("--launches", 0, "--hz", 5_000, "--stop-file", stop)
        agent = Agent(program, disk / "full.db", "--keep-all", log=folder / "full.log")
        agent.await_attached()
        filler = fill(disk)
        time.sleep(8)
        lived = agent.is_running()
        filler.unlink()
        time.sleep(4)
        goes_on = agent.is_running()
        status = agent.end()
        stop.touch()
        workloads.note("load", load, exact=False)
        words = agent.log.read_text(errors="replace").strip().splitlines()[-1:]
        report.row("agent on a full disk for 8 s", "lived" if lived else "ended")
        report.row("after there was room again", "goes on" if goes_on else "has ended")
        report.check("its exit status: done, or a sentence", status, status in (0, 1))
        report.note(f"its last words: {words[0].replace(str(disk), '')[:200] if words else 'none'}")
        wrong = check_trace(program, agent.out)
        report.check("its trace", wrong or "whole, explained", wrong is None)
