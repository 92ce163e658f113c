"""A fleet's server that lives through pushes and stops, and one that is killed again and again while clients push: what was
acknowledged is there, once."""

import json
import random
import secrets
import signal
import socket
import subprocess
import threading
import time
import urllib.error
import urllib.request

from host import fill, small_disk
from living import Memory
from started import popen

PATIENCE_S = 60
CLIENTS = 4
POINTS = 20
STORE = "128M"
# The server's memory may grow by so much a minute, from when DuckDB has what it may keep.
MOST_SLOPE_KIB = 8192


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Server:
    def __init__(self, program, folder, *options):
        self.program, self.folder, self.options = program, folder, options
        self.token = secrets.token_hex(16)
        self.tokens = folder / "tokens"
        self.tokens.touch(mode=0o600)
        self.tokens.write_text(f"{self.token} * push,read,sql,admin\n")
        self.otlp, self.api, self.grpc = (f"127.0.0.1:{free_port()}" for _ in range(3))
        self.said = open(folder / "server.log", "ab")
        self.process = None

    def start(self):
        self.process = popen([
            self.program, "serve", "--data", self.folder / "data", "--tokens", self.tokens, "--insecure-no-tls", "--otlp-grpc", self.grpc,
            "--otlp-http", self.otlp, "--api", self.api, *self.options
        ], stdout=self.said, stderr=self.said)

    def await_answer(self):
        end = time.monotonic() + PATIENCE_S
        while time.monotonic() < end and self.process.poll() is None:
            try:
                urllib.request.urlopen(f"http://{self.api}/api/v1/health", timeout=5).close()
                return True
            except OSError:
                time.sleep(0.05)
        return False

    def kill(self):
        self.process.kill()
        self.process.wait()

    def end(self, report):
        self.process.terminate()
        try:
            status = self.process.wait(timeout=PATIENCE_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            status = self.process.wait()
        self.said.close()
        report.check("the server's exit status after SIGTERM", status, status == 0)

    def post(self, address, path, body):
        headers = {"authorization": f"Bearer {self.token}", "content-type": "application/json"}
        request = urllib.request.Request(f"http://{address}{path}", json.dumps(body).encode(), headers)
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.loads(answer.read() or b"{}")

    def sql(self, statement):
        return self.post(self.api, "/api/v1/tools/fleet.cluster.run_analysis", {"sql": statement})


def push(server, client, number):
    """One request; points have numbers of their own."""
    now = time.time_ns()
    point = lambda at: {"timeUnixNano": str(now), "asInt": str(number * POINTS + at), "attributes": []}
    attribute = lambda key, value: {"key": key, "value": {"stringValue": value}}
    resource = {"attributes": [attribute("cluster_id", "soak"), attribute("node_id", f"node-{client}")]}
    metric = {"name": "soak.number", "gauge": {"dataPoints": [point(at) for at in range(POINTS)]}}
    return {"resourceMetrics": [{"resource": resource, "scopeMetrics": [{"metrics": [metric]}]}]}


class Client(threading.Thread):
    """Pushes until it is told to stop, each request again and again until it is acknowledged."""

    def __init__(self, server, client, over):
        super().__init__(daemon=True)
        self.server, self.client, self.over = server, client, over
        self.acknowledged, self.again, self.refused = 0, 0, []

    def run(self):
        while not self.over.is_set():
            body = push(self.server, self.client, self.acknowledged)
            while True:
                try:
                    self.server.post(self.server.otlp, "/v1/metrics", body)
                    break
                except urllib.error.HTTPError as error:
                    if error.code not in (429, 503):
                        self.refused.append(f"{error.code} {error.read()[:200]}")
                        return
                except (OSError, ValueError, EOFError) as _:
                    pass
                except Exception as error:  # http.client's, for answers that break off
                    if "http.client" not in type(error).__module__:
                        raise
                self.again += 1
                time.sleep(0.05)
            self.acknowledged += 1


class Clients:
    """Some that push at once."""

    def __init__(self, server):
        self.over = threading.Event()
        self.clients = [Client(server, client, self.over) for client in range(CLIENTS)]
        for client in self.clients:
            client.start()

    def check(self, server, report):
        """Ends them; all that was acknowledged must be stored, once."""
        self.over.set()
        for client in self.clients:
            client.join(timeout=PATIENCE_S)
        refused = [why for client in self.clients for why in client.refused]
        report.check("requests refused for good", len(refused), not refused)
        for why in refused[:3]:
            report.note(why)
        sent = sum(client.acknowledged for client in self.clients) * POINTS
        statement = "SELECT count(*), count(DISTINCT (node_id, value_int)) FROM events WHERE metric_name = 'soak.number'"
        try:
            stored = [int(number) for number in server.sql(statement)["rows"][0].values()]
        except (OSError, KeyError, IndexError, ValueError) as error:
            stored = [str(error)]
        report.row("requests that had to be sent again", sum(client.again for client in self.clients))
        stuck = sum(client.is_alive() for client in self.clients)
        report.check("points acknowledged; rows stored, different ones of them", f"{sent}; {stored}", stored == [sent, sent] and not stuck)


def server_living(program, folder, seconds, seed, report):
    """Pushes without a break; now and then the server is stopped (SIGSTOP), as a host that swaps or a frozen container does it. Its
    clock cannot be set apart from the host's: a time namespace has no offset for the time of day, and takes others at a start only."""
    chance = random.Random(seed)
    # So that its store has all it may take before the second half.
    server = Server(program, folder, "--store-memory", STORE)
    server.start()
    if not server.await_answer():
        report.fail("the server did not start")
        return
    clients = Clients(server)
    memory = Memory(server.process.pid)
    end = time.monotonic() + seconds
    stopped = 0
    while time.monotonic() < end and server.process.poll() is None:
        time.sleep(chance.uniform(1.0, 8.0))
        memory.doing = "stopped"
        server.process.send_signal(signal.SIGSTOP)
        time.sleep(chance.uniform(0.2, 3.0))
        server.process.send_signal(signal.SIGCONT)
        memory.doing = "pushes"
        stopped += 1
    lives = server.process.poll() is None
    report.check("times the server was stopped (SIGSTOP) for up to 3 s; after that", f"{stopped}, {'lives' if lives else 'ended'}", lives)
    first, most, last, grows = memory.figures()
    report.row("the server's memory: first, most, last", f"{first:.0f}, {most:.0f}, {last:.0f} MiB")
    report.check("slope of its memory in the second half", f"{grows:.0f} KiB a minute", grows <= MOST_SLOPE_KIB)
    clients.check(server, report)
    server.end(report)


def server_killed(program, folder, times, seconds, seed, report):
    chance = random.Random(seed)
    server = Server(program, folder)
    server.start()
    if not server.await_answer():
        report.fail("the server did not start")
        return
    clients = Clients(server)
    end = time.monotonic() + seconds
    kills, early = 0, 0
    while kills < times and time.monotonic() < end:
        if chance.random() < 0.3:
            time.sleep(chance.uniform(0.0, 0.5))
            early += 1
        elif server.await_answer():
            time.sleep(chance.uniform(0.0, 1.5))
        if server.process.poll() is not None:
            report.fail(f"the server ended by itself with {server.process.returncode}")
        server.kill()
        server.start()
        kills += 1
    lives = server.await_answer()
    report.check("servers killed (SIGKILL), of them before they answered", f"{kills} of {times}, {early}", lives and kills == times)
    memory = Memory(server.process.pid)
    time.sleep(20)
    clients.check(server, report)
    first, most, last, _ = memory.figures()
    report.row("the last one's memory in 20 s of pushes: first, most, last", f"{first:.0f}, {most:.0f}, {last:.0f} MiB")
    server.end(report)


def server_full_disk(program, folder, report):
    """Pushes while there is no room; when there is again, all of them are stored."""
    with small_disk(folder / "data", "96m") as mounted:
        if not mounted:
            report.row("a full disk", "skipped: a tmpfs cannot be mounted")
            return
        server = Server(program, folder)
        server.start()
        if not server.await_answer():
            report.fail("the server did not start")
            return
        clients = Clients(server)
        time.sleep(3)
        filler = fill(folder / "data")
        time.sleep(8)
        report.check("the server on a full disk for 8 s", "lived" if server.process.poll() is None else "ended", server.process.poll() is None)
        filler.unlink()
        time.sleep(5)
        clients.check(server, report)
        server.end(report)
