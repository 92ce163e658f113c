#!/usr/bin/env python3
"""A host and a fleet under everything that goes wrong, for a while: soak/run.py GPUWHY GPUWHY-FLEET FOLDER-OF-THE-STAND-IN [FIGURES]

SOAK_MINUTES=30 is how long, SOAK_SEED=N makes the same happen again, SOAK_FOLDER=DIR keeps what was recorded. Needs root. Half of the
time one agent lives through storms of processes, containers that come and go, replaced libraries, stopped processes and other clocks;
a quarter each agents and servers are killed, up to a hundred times. The host's clock is never set.
"""

import contextlib
import os
import sys
import tempfile
import time
from pathlib import Path

from killed import full_disk, killed
from living import living
from report import Report
from server import server_full_disk, server_killed

TIMES = 100


def main():
    if len(sys.argv) not in (4, 5):
        sys.exit(__doc__)
    if os.geteuid() != 0:
        sys.exit("the soak needs root: it loads eBPF programs, mounts and makes cgroups")
    program, fleet, stand_in = (Path(word).resolve() for word in sys.argv[1:4])
    seconds = float(os.environ.get("SOAK_MINUTES", "30")) * 60
    seed = int(os.environ.get("SOAK_SEED", time.time_ns() % 1_000_000))
    print(f"soak of {seconds / 60:g} minutes, seed {seed}", flush=True)
    report = Report()
    with contextlib.ExitStack() as stack:
        kept = os.environ.get("SOAK_FOLDER")
        folder = Path(kept or stack.enter_context(tempfile.TemporaryDirectory(prefix="gpuwhy-soak-")))
        parts = [
            ("One agent lives through it", "living", lambda at: living(program, stand_in, at, seconds * 0.45, seed, report)),
            ("Agents are killed", "killed", lambda at: killed(program, stand_in, at, TIMES, seconds * 0.3, seed, report)),
            ("The disk is full", "full", lambda at: full_disk(program, stand_in, at, report)),
            ("The server's disk is full", "server-full", lambda at: server_full_disk(fleet, at, report)),
            ("Servers are killed", "server", lambda at: server_killed(fleet, at, TIMES, seconds * 0.25, seed, report)),
        ]
        for title, name, run in parts:
            report.part(title)
            at = folder / name
            at.mkdir(parents=True)
            run(at)
    took = (time.monotonic() - report.began) / 60
    if len(sys.argv) == 5:
        head = f"# Soak\n\n`make soak`, {took:.0f} minutes, seed {seed}, {os.cpu_count()} CPUs, Linux {os.uname().release.split('-')[0]}."
        report.write(Path(sys.argv[4]), head)
    sys.exit(report.end())


if __name__ == "__main__":
    main()
