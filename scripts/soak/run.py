#!/usr/bin/env python3
"""A host and a fleet under everything that goes wrong, for a while: soak/run.py GPUWHY GPUWHY-FLEET FOLDER-OF-THE-STAND-IN [FIGURES]

SOAK_MINUTES=30 is how long, SOAK_SEED=N makes the same happen again, SOAK_FOLDER=DIR keeps what was recorded. Needs root. Two fifths of the
time one agent lives through storms of processes, containers that come and go, replaced libraries, stopped processes and other clocks;
a sixth one server lives through pushes and stops; for the rest agents and servers are killed, up to a hundred times. The host's clock is never set.
"""

import contextlib
import os
import signal
import sys
import tempfile
import time
import traceback
from pathlib import Path

from killed import full_disk, killed
from living import living
from report import Report
from started import end_all
from server import server_full_disk, server_killed, server_living

# In half an hour; of a shorter soak fewer.
TIMES, WHOLE_S = 100, 1_800
# Beyond a part's own time: for its checks, and for what it waits for.
PATIENCE_S = 300


@contextlib.contextmanager
def guarded(report, seconds):
    """A part that fails or hangs is said so, what it has started is ended, and the next one begins."""

    def late(*_):
        raise TimeoutError(f"it had not ended after {seconds + PATIENCE_S:.0f} s")

    signal.signal(signal.SIGALRM, late)
    signal.alarm(int(seconds + PATIENCE_S))
    try:
        yield
    except Exception as error:  # whatever it is, the other parts are still to come
        report.note(f"{type(error).__name__}: {error}"[:500])
        traceback.print_exc()
        report.fail("this part did not come to its end")
    finally:
        signal.alarm(0)
        left = end_all()
        if left:
            report.note(f"ended: {', '.join(left)}"[:500])


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
        times = max(2, round(TIMES * min(1, seconds / WHOLE_S)))
        parts = [
            ("One agent lives through it", "living", seconds * 0.4, lambda at, for_s: living(program, stand_in, at, for_s, seed, report)),
            ("Agents are killed", "killed", seconds * 0.25, lambda at, for_s: killed(program, stand_in, at, times, for_s, seed, report)),
            ("The disk is full", "full", 0, lambda at, _: full_disk(program, stand_in, at, report)),
            ("The server's disk is full", "server-full", 0, lambda at, _: server_full_disk(fleet, at, report)),
            ("One server lives through it", "server-living", seconds * 0.15, lambda at, for_s: server_living(fleet, at, for_s, seed, report)),
            ("Servers are killed", "server", seconds * 0.2, lambda at, for_s: server_killed(fleet, at, times, for_s, seed, report)),
        ]
        for title, name, for_s, run in parts:
            report.part(title)
            at = folder / name
            at.mkdir(parents=True)
            with guarded(report, for_s):
                run(at, for_s)
    took = (time.monotonic() - report.began) / 60
    if len(sys.argv) == 5:
        head = f"# Soak\n\n`make soak`, {took:.0f} minutes, seed {seed}, {os.cpu_count()} CPUs, Linux {os.uname().release.split('-')[0]}."
        report.write(Path(sys.argv[4]), head)
    sys.exit(report.end())


if __name__ == "__main__":
    main()
