"""Programs in the shape of services: engines behind event loops, queues, sockets, managers, and what runs beside them."""

import array
import asyncio
import concurrent.futures
import http.server
import json
import logging
import mmap
import multiprocessing
import multiprocessing.managers
import multiprocessing.shared_memory
import os
import queue
import socket
import subprocess
import sys
import tempfile
import time
import zlib

import torch

from gpu_programs import Captures
from loop import BATCH, HERE, LENGTH, WIDTH, Training
from service_peers import fetch_page

FORK = multiprocessing.get_context("fork")
GRADIENTS = 24_000
HALF_BYTES = BATCH * LENGTH * WIDTH * 4
DOCUMENT = " ".join(f"Sooo-many{number % 71} wordsss, noooothing new{number % 17}!" for number in range(900))


def start_peer(run, name, *arguments, **options):
    """Starts a process of `service_peers.py`, and reports it as a helper."""
    process = subprocess.Popen([sys.executable, os.path.join(HERE, "service_peers.py"), name, *map(str, arguments)], **options)
    run.helpers[name] = process.pid
    run.children.append(process)
    return process


def start_child(run, name, work, *arguments):
    """Forks a process, before CUDA is used here, and reports it as a helper."""
    process = FORK.Process(target=work, args=(run, *arguments), daemon=True)
    process.start()
    run.helpers[name] = process.pid
    run.children.append(process)


def async_handler(run):
    """An engine on an event loop, which a health check blocks: its ping is not asynchronous."""
    train = Training()

    async def serve():
        events, requests = asyncio.get_running_loop(), asyncio.Queue()
        others = [asyncio.create_task(user(requests)) for _ in range(4)] + [asyncio.create_task(check_health(run))]
        with concurrent.futures.ThreadPoolExecutor(1) as executor:
            for _ in run.steps(train.infer):
                batch = [await requests.get()]
                while not requests.empty():
                    batch.append(requests.get_nowait())
                await events.run_in_executor(executor, train.infer)
                for answer in batch:
                    answer.set_result("done")
        for task in others:
            task.cancel()

    asyncio.run(serve())


async def user(requests):
    while True:
        answer = asyncio.get_running_loop().create_future()
        await requests.put(answer)
        await answer


async def check_health(run):
    while True:
        await asyncio.sleep(0.004)
        if not run.without:
            ping_upstream()


def ping_upstream():
    time.sleep(0.014)  # MARK ping_upstream


def batching(run):
    """Continuous batching: the main thread plans, a thread has the GPU and waits for the plan."""
    train, plans, results = Training(), queue.Queue(), queue.Queue()
    train.step()

    def engine():
        try:
            plans.get(timeout=0.2)
        except queue.Empty:
            return
        train.infer()
        results.put(True)

    run.start_thread("engine", engine)
    sequences = [list(range(number, number + 300)) for number in range(400)]

    def step():
        plans.put(True)
        results.get()

    for _ in run.steps(step):
        if not run.without:
            plan_blocks(sequences)
        step()


def plan_blocks(sequences):
    """Which blocks of memory each sequence needs."""
    used = {}
    for sequence in sequences:
        for position in sequence:
            block = position // 16
            used[block] = used.get(block, 0) + 1  # MARK plan_blocks
    return used


def detokenizer(run):
    """A thread turns tokens into text, slower than the engine makes them; the queue between is bounded."""
    train, outputs = Training(), queue.Queue(maxsize=2)
    pieces = {number: f"piece{number}" for number in range(5000)}

    def detokenize():
        outputs.get()
        if not run.without:
            join_pieces(pieces)

    run.start_thread("detok", detokenize)
    for _ in run.steps(train.infer):
        train.infer()
        outputs.put(1)


def join_pieces(pieces):
    text = []
    for number in range(300_000):
        text.append(pieces[number * 7 % 5000])  # MARK join_pieces
    return "".join(text)


class Metrics(http.server.BaseHTTPRequestHandler):
    """Renders all metrics at each request."""

    run = None

    def do_GET(self):
        body = b"" if self.run.without else render_metrics().encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        """Its log would go to the program's."""


def render_metrics():
    lines = []
    for number in range(30_000):
        lines.append(f'tokens_total{{model="m{number % 7}",shard="{number}"}} {number * 3}')  # MARK render_metrics
    return "\n".join(lines)


def exporter(run):
    """A thread serves metrics to a scraper that asks too often: it has the interpreter most of the time."""
    train = Training()
    train.step()
    Metrics.run = run
    server = http.server.HTTPServer(("127.0.0.1", 0), Metrics)
    server.timeout = 0.2
    run.start_thread("exporter", server.handle_request)
    start_peer(run, "scraper", server.server_port)
    for _ in run.steps(train.step):
        train.step()


class DurableHandler(logging.Handler):
    """Audit records are on the disk before its lock is given back; others are kept."""

    def __init__(self, run):
        super().__init__()
        self.run, self.kept = run, []
        self.path = run.data + ".audit"
        self.file = os.open(self.path, os.O_CREAT | os.O_RDWR)
        self.block = mmap.mmap(-1, 1 << 20)

    def emit(self, record):
        if record.levelno >= logging.WARNING and not self.run.without:
            write_audit(self.file, self.block)
        else:
            self.kept = [record.getMessage()]


def write_audit(file, block):
    until = time.perf_counter() + 0.02
    while time.perf_counter() < until:
        os.pwrite(file, block, 0)  # MARK write_audit
        os.fsync(file)  # MARK write_audit


def log_handler(run):
    """The loop logs a line a step; the handler's lock is held by a thread that writes to the disk."""
    log, handler = logging.getLogger("service"), DurableHandler(run)
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    log.propagate = False

    def audit():
        log.warning("an audit record")
        time.sleep(0.003)

    train = Training()
    run.start_thread("audit", audit)
    for number in run.steps(train.step):
        log.info("step %d", number)  # MARK log_step
        train.step()
    os.unlink(handler.path)


class Catalogue:
    """Lives in the process of a manager."""

    def look_up(self, count):
        total = 0
        for value in range(count):
            total = (total * 33 + value) % 65_537  # MARK look_up
        return total


class Manager(multiprocessing.managers.BaseManager):
    """Shares a catalogue."""


Manager.register("Catalogue", Catalogue)


def mp_manager(run):
    """Each step asks an object of a multiprocessing manager."""
    manager = Manager(ctx=FORK)
    manager.start()
    run.helpers["manager"] = manager._process.pid
    run.children.append(manager._process)
    catalogue, train = manager.Catalogue(), Training()
    for _ in run.steps(train.step):
        if not run.without:
            catalogue.look_up(250_000)
        train.step()
    manager.shutdown()


def shm_barrier(run):
    """Two processes fill and use the halves of a shared memory in turns, and meet at a barrier."""
    memory = multiprocessing.shared_memory.SharedMemory(create=True, size=2 * HALF_BYTES)
    barrier = FORK.Barrier(2)
    start_child(run, "partner", unpack_batches, memory, barrier)
    train = Training()
    try:
        for number in run.steps(train.step):
            barrier.wait()
            half = number % 2 * HALF_BYTES
            train.step(torch.frombuffer(memory.buf, dtype=torch.float32, count=HALF_BYTES // 4, offset=half).view(BATCH, LENGTH, WIDTH).to("cuda"))
    finally:
        memory.unlink()


def unpack_batches(run, memory, barrier):
    packed, number = zlib.compress(bytes(HALF_BYTES), 1), 0
    while True:
        number += 1
        half = number % 2 * HALF_BYTES
        memory.buf[half:half + HALF_BYTES] = bytes(HALF_BYTES) if run.without else unpack(packed)
        barrier.wait()


def unpack(packed):
    until = time.perf_counter() + 0.025
    while time.perf_counter() < until:
        batch = zlib.decompress(packed)  # MARK unpack
    return batch


def param_server(run):
    """Gradients go to a parameter server over a Unix socket, and weights come back."""
    address = os.path.join(tempfile.mkdtemp(), "parameters")
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(address)
    listener.listen()
    start_child(run, "server", serve_parameters, listener)
    listener.close()
    train = Training()
    gradients = array.array("f", bytes(4 * GRADIENTS)).tobytes()
    with socket.socket(socket.AF_UNIX) as server:
        server.connect(address)
        for _ in run.steps(train.step):
            train.step()
            exchange(server, gradients)


def exchange(server, gradients):
    server.sendall(gradients)
    return take_exactly(server, len(gradients))


def take_exactly(peer, length):
    taken = bytearray()
    while len(taken) < length:
        received = peer.recv(length - len(taken))
        if not received:
            raise EOFError
        taken += received
    return taken


def serve_parameters(run, listener):
    worker, _ = listener.accept()
    weights = array.array("f", bytes(4 * GRADIENTS))
    while True:
        try:
            gradients = array.array("f", bytes(take_exactly(worker, 4 * GRADIENTS)))
        except EOFError:
            return
        if not run.without:
            for _ in range(5):
                average(weights, gradients)
        worker.sendall(weights.tobytes())


def average(weights, gradients):
    for number, gradient in enumerate(gradients):
        weights[number] = 0.9 * weights[number] + 0.1 * gradient  # MARK average


def stdin_child(run):
    """A child cleans documents, asked and answering over its standard streams."""
    train = Training()
    cleaner = start_peer(run, "cleaner", stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    for _ in run.steps(train.step):
        clean_document(cleaner, not run.without)
        train.step()


def clean_document(cleaner, is_raw):
    print(json.dumps({"text": DOCUMENT, "is_raw": is_raw}), file=cleaner.stdin, flush=True)
    return json.loads(cleaner.stdout.readline())


def forkserver_pool(run):
    """A pool of a fork server fetches pages; its workers sleep between attempts."""
    with multiprocessing.get_context("forkserver").Pool(2) as pool:
        pool.map(fetch_page, range(2), chunksize=1)
        run.helpers["worker"], run.helpers["worker_2"] = (worker.pid for worker in pool._pool)
        train = Training()
        for _ in run.steps(train.step):
            if not run.without:
                pool.map(fetch_page, range(2), chunksize=1)
            train.step()


def graph_server(run):
    """Replays a CUDA graph for each request; between bursts there are none, and nothing is wrong."""
    captures = Captures()
    listener = socket.create_server(("127.0.0.1", 0))
    start_peer(run, "users", listener.getsockname()[1])
    peer, _ = listener.accept()
    with peer:

        def serve():
            requests = peer.recv(64)
            for _ in requests:
                captures.first.replay()
            torch.cuda.synchronize()
            peer.sendall(requests)

        for _ in run.steps(serve):
            serve()
