#!/usr/bin/env python3
"""A fleet on one machine: a server, eight simulated ranks under real eBPF, one of them late, and what is said of it.

demo-fleet.py GPUWHY GPUWHY-FLEET FOLDER-OF-THE-STAND-IN [LATE_RANK] [LATE_US]
"""

import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

RANKS = 8
ITERATIONS = 1500
PATIENCE_S = 60


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Fleet:
    """The server, and asking it by HTTP and as an assistant would."""

    def __init__(self, program, folder):
        self.token = secrets.token_hex(16)
        tokens = folder / "tokens"
        tokens.touch(mode=0o600)
        tokens.write_text(f"{self.token} * push,read\n")
        self.otlp, self.api = (f"http://127.0.0.1:{free_port()}" for _ in range(2))
        grpc = f"127.0.0.1:{free_port()}"
        address = lambda url: url.removeprefix("http://")
        self.process = subprocess.Popen([
            program, "serve", "--data", folder / "data", "--tokens", tokens, "--insecure-no-tls", "--otlp-grpc", grpc,
            "--otlp-http", address(self.otlp), "--api", address(self.api)
        ])
        self.wait()

    def wait(self):
        until = time.monotonic() + PATIENCE_S
        while time.monotonic() < until:
            try:
                return urllib.request.urlopen(f"{self.api}/api/v1/health", timeout=5).close()
            except OSError:
                if self.process.poll() is not None:
                    sys.exit("the server did not start")
                time.sleep(0.2)
        sys.exit("the server does not answer")

    def post(self, path, body, **headers):
        headers = {"authorization": f"Bearer {self.token}", "content-type": "application/json", **headers}
        request = urllib.request.Request(self.api + path, json.dumps(body).encode(), headers)
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.read().decode(), answer.headers

    def ask(self, tool, **request):
        return json.loads(self.post(f"/api/v1/tools/fleet.cluster.{tool}", request)[0])

    def ask_as_assistant(self, tool, **arguments):
        accept = {"accept": "application/json, text/event-stream"}
        hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "demo", "version": "1"}}
        _, headers = self.post("/mcp", {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}, **accept)
        session = {"mcp-session-id": headers["mcp-session-id"]} if headers["mcp-session-id"] else {}
        self.post("/mcp", {"jsonrpc": "2.0", "method": "notifications/initialized"}, **accept, **session)
        call = {"name": tool, "arguments": arguments}
        answer, _ = self.post("/mcp", {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": call}, **accept, **session)
        lines = [line.removeprefix("data:").strip() for line in answer.splitlines() if line.startswith("data:")] or [answer]
        for line in filter(None, lines):
            message = json.loads(line)
            if message.get("id") == 2:
                return message["result"]["content"][0]["text"]
        sys.exit(f"the assistant got no answer: {answer}")


def ranks(stand_in, folder, late, late_us):
    """Started, and waiting at a gate until all of them are watched."""
    gate, started = folder / "gate", []
    for rank in range(RANKS):
        environment = {**os.environ, "RANK": str(rank), "WORLD_SIZE": str(RANKS), "SIMGPU_sync": "block"}
        command = [
            stand_in / "simwork", "nccl", "--rank", str(rank), "--nranks", str(RANKS), "--id-file", folder / "id", "--iters",
            str(ITERATIONS), "--step-us", "8000", "--late-us", str(late_us) if rank == late else "0", "--start-file", f"{gate}{rank}"
        ]
        started.append(subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL))
    until = time.monotonic() + PATIENCE_S
    while not all(Path(f"{gate}{rank}.ready").exists() for rank in range(RANKS)):
        if time.monotonic() > until:
            sys.exit("the ranks did not start")
        time.sleep(0.1)
    return started, [Path(f"{gate}{rank}") for rank in range(RANKS)]


def main():
    program, fleet_program, stand_in = sys.argv[1], sys.argv[2], Path(sys.argv[3]).resolve()
    late, late_us = (int(word) for word in (*sys.argv[4:], *("5", "8000")[len(sys.argv) - 4:]))
    with tempfile.TemporaryDirectory(prefix="gpuwhy-demo-fleet-") as folder:
        folder = Path(folder)
        fleet = Fleet(fleet_program, folder)
        started, agent = [], None
        try:
            started, gates = ranks(stand_in, folder, late, late_us)
            environment = {**os.environ, "GPUWHY_FLEET_TOKEN": fleet.token, "GPUWHY_CLUSTER": "demo"}
            watched = [word for process in started for word in ("--pid", str(process.pid))]
            agent = subprocess.Popen(
                [program, "trace", "--out", folder / "trace.db", "--fleet", fleet.otlp, "--fleet-spool", folder / "spool", *watched],
                env=environment, stdout=subprocess.DEVNULL)
            time.sleep(3)
            for gate in gates:
                gate.touch()
            print(f"{RANKS} ranks run; rank {late} sleeps {late_us / 1e3:g} ms more than the others before each collective, which nobody was told\n", flush=True)
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
            for process in [*started, fleet.process]:
                process.terminate()
            if agent:
                agent.send_signal(signal.SIGINT)
            for process in filter(None, [*started, agent, fleet.process]):
                process.wait(timeout=30)


if __name__ == "__main__":
    main()
