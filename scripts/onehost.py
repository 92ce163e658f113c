"""A fleet on one machine, for the demo and for trials: a server, ranks on stand-in GPUs, and the agent that watches them."""

import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from pathlib import Path

RANKS = 8
PATIENCE_S = 60


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def until(holds, what, patience_s=PATIENCE_S):
    end = time.monotonic() + patience_s
    while not holds():
        if time.monotonic() > end:
            sys.exit(what)
        time.sleep(0.1)


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
        until(self.answers, "the server does not answer")

    def answers(self):
        try:
            urllib.request.urlopen(f"{self.api}/api/v1/health", timeout=5).close()
            return True
        except OSError:
            if self.process.poll() is not None:
                sys.exit("the server did not start")
            return False

    def end(self):
        self.process.terminate()
        self.process.wait(timeout=PATIENCE_S)

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


class Ranks:
    """Started, and waiting at their gates until all of them are watched."""

    def __init__(self, stand_in, folder, options, before=()):
        """`options` gives the words for a rank, `before` those that start it elsewhere."""
        self.gates = [folder / f"gate{rank}" for rank in range(RANKS)]
        self.started = []
        for rank, gate in enumerate(self.gates):
            environment = {**os.environ, "RANK": str(rank), "WORLD_SIZE": str(RANKS), "SIMGPU_sync": "block"}
            command = [
                *before, stand_in / "simrank.py", "--rank", rank, "--nranks", RANKS, "--id-file", folder / "id", "--start-file", gate, *options(rank)
            ]
            started = subprocess.Popen([str(word) for word in command], env=environment, stdout=subprocess.DEVNULL)
            self.started.append(started)
        until(lambda: all(gate.with_name(gate.name + ".ready").exists() for gate in self.gates), "the ranks did not start")
        self.pids = [int(gate.with_name(gate.name + ".ready").read_text()) for gate in self.gates]

    def go(self):
        for gate in self.gates:
            gate.touch()

    def end(self):
        for process in self.started:
            process.kill()
        for process in self.started:
            process.wait()


class Agent:
    """`gpuwhy trace --fleet`, of all ranks at once."""

    def __init__(self, program, folder, fleet, pids, cluster):
        environment = {**os.environ, "GPUWHY_FLEET_TOKEN": fleet.token, "GPUWHY_CLUSTER": cluster}
        watched = [word for pid in pids for word in ("--pid", str(pid))]
        self.said = (folder / "agent.log").open("wb")
        self.process = subprocess.Popen(
            [program, "trace", "--json", "--out", folder / "trace.db", "--fleet", fleet.otlp, "--fleet-spool", folder / "spool", *watched],
            env=environment, stdout=subprocess.PIPE, stderr=self.said)
        self.attached = threading.Event()
        threading.Thread(target=self.read, daemon=True).start()
        if not self.attached.wait(PATIENCE_S):
            sys.exit("the agent did not attach")

    def read(self):
        """All of it, so that a full pipe holds nobody; sums come from when everything is attached."""
        for line in self.process.stdout:
            if b'"type":"sums"' in line:
                self.attached.set()

    def end(self):
        self.process.send_signal(signal.SIGINT)
        self.process.wait(timeout=PATIENCE_S)
        self.said.close()
