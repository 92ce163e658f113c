"""Programs in the shape of PyTorch's with one fault, or none. What must be said of each is in `programs.rs`; lines it names end
with `# MARK name`."""

import asyncio
import concurrent.futures
import contextlib
import ctypes
import json
import logging
import logging.handlers
import mmap
import multiprocessing
import os
import queue
import socket
import subprocess
import sys
import threading
import time

import torch
from loop import Training, burn, main

fork = multiprocessing.get_context("fork")


def plain(run):
    training = Training()
    for _ in run.steps():
        training.step()


def gpu_bound_synced(run):
    training = Training(kernel_us=90)
    for _ in run.steps():
        training.step()
        torch.synchronize()


def few_kernels_synced(run):
    """A few short kernels, then a synchronisation, as a small inference does."""
    training = Training(layers=1, kernel_us=60)
    for _ in run.steps():
        training.infer()
        torch.synchronize()


def prefetch_hides(run):
    """The loader takes 6 ms for a batch, but does it ahead of time: steps take longer than that."""
    training = Training(layers=24, dispatch_us=25)
    batches = queue.Queue(4)

    def load():
        time.sleep(0.004)
        with contextlib.suppress(queue.Full):
            batches.put(bytes(1000), timeout=0.5)
    run.start_thread("loader", load)
    for _ in run.steps():
        training.step(batches.get())


def queue_listener_ok(run):
    """The same with room enough: the slow listener holds up nobody."""
    training = Training(layers=24, dispatch_us=25)
    records = queue.Queue(-1)

    class Slow(logging.Handler):
        def emit(self, record):
            time.sleep(0.003)
    listener = logging.handlers.QueueListener(records, Slow())
    listener.start()
    logger = logging.getLogger("train")
    logger.addHandler(logging.handlers.QueueHandler(records))
    logger.propagate = False
    logger.setLevel(logging.INFO)
    for step in run.steps():
        training.step()
        logger.info("step %d", step)


def lock_chain(run):
    """main waits for a cache lock of thread A, which waits for a connection lock that thread db holds while it sleeps."""
    training = Training()
    cache, connection = threading.Lock(), threading.Lock()

    def database():
        with connection:
            time.sleep(0.012)  # MARK lock_chain
        time.sleep(0.001)

    def cacher():
        with cache:
            with connection:
                pass
        time.sleep(0.001)
    run.start_thread("db", database)
    run.start_thread("cacher", cacher)
    for _ in run.steps():
        with cache:
            pass
        training.step()


def executor_cpu(run):
    """A ThreadPoolExecutor's only thread computes in Python, and its result is awaited."""
    training = Training()
    def prepare():
        number = 0
        for at in range(120000):
            number = (number * 3 + at) % 1000003  # MARK thread_pool_cpu
        return number
    def name_it():
        ctypes.CDLL(None).prctl(15, b"backend", 0, 0, 0)
        run.threads["backend"] = threading.get_native_id()
    pool = concurrent.futures.ThreadPoolExecutor(1, initializer=name_it)
    for _ in run.steps():
        pool.submit(prepare).result()
        training.step()


def queue_listener_blocks(run):
    """Logging through a bounded queue whose listener's handler is slow: the loop waits for room."""
    training = Training()
    records = queue.Queue(4)

    class Slow(logging.Handler):
        def emit(self, record):
            time.sleep(0.01)  # MARK queue_listener

    def drain():
        record = records.get()
        slow.handle(record)
    slow = Slow()
    run.start_thread("writer", drain)

    class Blocking(logging.handlers.QueueHandler):
        def enqueue(self, record):
            self.queue.put(record)
    logger = logging.getLogger("train")
    logger.addHandler(Blocking(records))
    logger.propagate = False
    logger.setLevel(logging.INFO)
    for step in run.steps():
        training.step()
        logger.info("step %d", step)


def two_stages(run):
    """reader -> tokenizer process -> main: the tokenizer is slow."""
    raw, ready = fork.Queue(4), fork.Queue(4)

    def read():
        while True:
            time.sleep(0.001)
            raw.put("some text " * 50)

    def tokenize():
        while True:
            text = raw.get()
            number = 0
            for at in range(100000):
                number = (number * 3 + at) % 1000003  # MARK two_stages
            ready.put((text, number))
    for name, target in (("reader", read), ("tokenizer", tokenize)):
        process = fork.Process(target=target, daemon=True)
        process.start()
        run.helpers[name] = process.pid
    training = Training()
    for _ in run.steps():
        training.step(ready.get())


def first_stage(run):
    """The same, but the reader is slow: the tokenizer waits for it."""
    raw, ready = fork.Queue(4), fork.Queue(4)

    def read():
        while True:
            time.sleep(0.02)  # MARK first_stage
            raw.put("some text " * 50)

    def tokenize():
        while True:
            ready.put(len(raw.get().split()))
    for name, target in (("reader", read), ("tokenizer", tokenize)):
        process = fork.Process(target=target, daemon=True)
        process.start()
        run.helpers[name] = process.pid
    training = Training()
    for _ in run.steps():
        training.step(ready.get())


def slow_of_three(run):
    """Three workers take turns; one of them is slow, and batches are taken in order."""
    pipes = []

    def work(number, pipe):
        while True:
            pipe.recv()
            if number == 2:
                time.sleep(0.06)  # MARK slow_of_three
            pipe.send(bytes(3000))
    for number in range(3):
        ours, theirs = fork.Pipe()
        process = fork.Process(target=work, args=(number, theirs), daemon=True)
        process.start()
        run.helpers[f"worker{number}"] = process.pid
        pipes.append(ours)
    training = Training()
    for pipe in pipes:
        pipe.send(1)
    for step in run.steps():
        pipe = pipes[step % 3]
        pipe.recv()
        pipe.send(1)
        training.step()


def unix_socket_json(run):
    """A feature server over a Unix socket that serialises JSON slowly."""
    ours, theirs = socket.socketpair()

    def serve():
        record = {f"k{n}": [n, n * 0.5, str(n)] for n in range(4000)}
        while True:
            theirs.recv(1)
            json.loads(json.dumps(record))  # MARK unix_server
            theirs.sendall(b"y")
    process = fork.Process(target=serve, daemon=True)
    process.start()
    run.helpers["server"] = process.pid
    training = Training()
    for _ in run.steps():
        ours.sendall(b"x")
        ours.recv(1)
        training.step()


def subprocess_output(run):
    training = Training()
    for step in run.steps():
        if step % 5 == 0:
            subprocess.check_output(["sh", "-c", "sleep 0.05; echo done"])  # MARK child
        training.step()


def asyncio_to_thread(run):
    training = Training()

    def fetch():
        time.sleep(0.009)  # MARK to_thread

    async def engine():
        for _ in run.steps():
            await asyncio.to_thread(fetch)
            training.step()
    asyncio.run(engine())


def stall_near_end(run):
    training = Training()
    began, done = time.perf_counter(), False
    for _ in run.steps():
        if not done and time.perf_counter() - began > run.seconds - 0.9:
            done = True
            time.sleep(0.6)  # MARK stall_end
        training.step()


def periodic_evaluation(run):
    """Every 150 steps an evaluation of 60 forward passes: no stall."""
    training = Training()
    for step in run.steps():
        training.step()
        if step % 150 == 149:
            for _ in range(60):
                training.infer()


def pin_thread(run):
    """main <- thread that pins <- worker process that sleeps."""
    results, ready = fork.Queue(), queue.Queue(2)
    def work():
        while True:
            time.sleep(0.014)  # MARK pinned_worker
            results.put(bytes(5000))
    process = fork.Process(target=work, daemon=True)
    process.start()
    run.helpers["worker"] = process.pid
    def pin():
        with contextlib.suppress(queue.Full):
            ready.put(results.get(), timeout=1)
    run.start_thread("pt_pin", pin)
    training = Training()
    for _ in run.steps():
        training.step(ready.get())


def loop_in_thread(run):
    """The training loop is not in the main thread."""
    training = Training()
    def train():
        ctypes.CDLL(None).prctl(15, b"trainer", 0, 0, 0)
        run.threads["trainer"] = threading.get_native_id()
        for _ in run.steps():
            time.sleep(0.007)  # MARK thread_loop
            training.step()
    thread = threading.Thread(target=train)
    thread.start()
    while thread.is_alive():
        thread.join(0.1)


def mp_lock(run):
    lock = fork.Lock()
    def hold():
        while True:
            with lock:
                time.sleep(0.015)  # MARK mp_lock
            time.sleep(0.002)
    process = fork.Process(target=hold, daemon=True)
    process.start()
    run.helpers["holder"] = process.pid
    training = Training()
    for _ in run.steps():
        with lock:
            pass
        training.step()


def worker_lock(run):
    """A worker that needs, for each batch, what another process has."""
    lock = fork.Lock()
    def hold():
        while True:
            with lock:
                time.sleep(0.02)  # MARK worker_lock
            time.sleep(0.001)
    holder = fork.Process(target=hold, daemon=True)
    holder.start()
    run.helpers["holder"] = holder.pid
    batches = fork.Queue(2)
    def work():
        while True:
            with lock:
                pass
            batches.put(bytes(1000))
    fork.Process(target=work, daemon=True).start()
    training = Training()
    for _ in run.steps():
        batches.get()
        training.step()


def poll_shared_memory(run):
    """Looks again and again whether a worker is done: sleeps too short to be recorded one by one."""
    shared = mmap.mmap(-1, 8)
    def work():
        while True:
            if shared[0] == 1:
                burn(150000)
                shared[0] = 2
            time.sleep(0.0005)
    fork.Process(target=work, daemon=True).start()
    training = Training()
    for _ in run.steps():
        shared[0] = 1
        while shared[0] != 2:
            time.sleep(0.0005)  # MARK poll
        training.step()


def spawned_worker(run):
    """A worker that is a program of its own, over pipes."""
    worker = subprocess.Popen([sys.executable, os.path.abspath(__file__), "--worker"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    run.helpers["spawned"] = worker.pid
    training = Training()
    for _ in run.steps():
        worker.stdin.write(b"x\n")
        worker.stdin.flush()
        worker.stdout.readline()
        training.step()
    worker.kill()


def asyncio_streams(run):
    """An engine that asks a local asyncio server over TCP in each step."""
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen()
    def serve():
        async def answer(reader, writer):
            while await reader.readline():
                time.sleep(0.007)  # MARK stream_server
                writer.write(b"ok\n")
                await writer.drain()
        async def run_server():
            server = await asyncio.start_server(answer, sock=listener)
            await server.serve_forever()
        asyncio.run(run_server())
    process = fork.Process(target=serve, daemon=True)
    process.start()
    run.helpers["server"] = process.pid
    training = Training()
    async def engine():
        reader, writer = await asyncio.open_connection(*listener.getsockname())
        for _ in run.steps():
            writer.write(b"next\n")
            await writer.drain()
            await reader.readline()
            training.step()
    asyncio.run(engine())


if __name__ == "__main__":
    if sys.argv[1] == "--worker":
        for _ in sys.stdin:
            burn(120000)
            print("y", flush=True)
    else:
        main(globals())
