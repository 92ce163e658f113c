#!/usr/bin/env python3
"""A fleet on one machine: a server, eight simulated ranks under real eBPF, one of them late, and what is said of it.

demo-fleet.py GPUWHY GPUWHY-FLEET FOLDER-OF-THE-STAND-IN [LATE_RANK] [LATE_US]
"""

import json
import sys
import tempfile
import time
from pathlib import Path

from onehost import PATIENCE_S, RANKS, Agent, Fleet, Ranks

STEPS = 1500


def main():
    program, fleet_program, stand_in = sys.argv[1], sys.argv[2], Path(sys.argv[3]).resolve()
    late, late_us = (int(word) for word in (*sys.argv[4:], *("5", "8000")[len(sys.argv) - 4:]))
    with tempfile.TemporaryDirectory(prefix="gpuwhy-demo-fleet-") as folder:
        folder, ending = Path(folder), []
        try:
            fleet = Fleet(fleet_program, folder)
            ending.append(fleet)
            ranks = Ranks(stand_in, folder, lambda rank: ["--steps", STEPS, "--late-us", late_us if rank == late else 0])
            ending.append(ranks)
            ending.append(Agent(program, folder, fleet, ranks.pids, "demo"))
            ranks.go()
            print(f"{RANKS} ranks run; rank {late} sleeps {late_us / 1e3:g} ms more than the others in each step, which nobody was told\n", flush=True)
            began = time.monotonic()
            verdicts = []
            while not verdicts and time.monotonic() - began < PATIENCE_S:
                time.sleep(0.5)
                verdicts = fleet.ask("find_outlier_nodes", cluster_id="demo")["verdicts"]
            if not verdicts:
                sys.exit("nobody was named")
            print(f"after {time.monotonic() - began:.1f} s the fleet says:")
            for verdict in verdicts:
                print(f"  {verdict['said']}")
            print(f"\nthe same over HTTP: POST {fleet.api}/api/v1/tools/fleet.cluster.find_outlier_nodes")
            print(json.dumps(verdicts[0], indent=2)[:900])
            print("\nand as an assistant gets it over MCP:")
            print(fleet.ask_as_assistant("fleet.cluster.find_outlier_nodes", cluster_id="demo")[:1200])
            named = {verdict["rank"] for verdict in verdicts if verdict["kind"] == "straggler"}
            sys.exit(0 if named == {late} else f"named were {sorted(named)}, planted was {late}")
        finally:
            for one in reversed(ending):
                one.end()


if __name__ == "__main__":
    main()
