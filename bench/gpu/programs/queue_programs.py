"""Programs whose batches come from somewhere else: producer threads, pools, queues, pipes of tools, locks of other processes."""

import asyncio
import concurrent.futures
import fcntl
import json
import multiprocessing
import os
import queue
import select
import subprocess
import sys
import threading
import time

import torch
import torch.utils.data

from loop import BATCH, HERE, LENGTH, WIDTH, Training

FORK = multiprocessing.get_context("fork")
RECORD = {"step": 1, "losses": [number / 7 for number in range(6000)], "notes": {str(number): "ok" for number in range(2000)}}


def queue_sleep(run):
    """A producer thread with a bounded queue, which waits for its source."""
    train, batches = Training(), queue.Queue(maxsize=2)
    run.start_thread("producer", lambda: produce_slowly(run, batches))
    for _ in run.steps(train.step):
        take_batch(batches)
        train.step()


def produce_slowly(run, batches):
    if not run.without:
        time.sleep(0.03)  # MARK queue_sleep
    batches.put(1)


def take_batch(batches):
    return batches.get()


def pool_threads(run):
    """One result of a thread pool is awaited in each step."""
    train = Training()
    with concurrent.futures.ThreadPoolExecutor(2, thread_name_prefix="fetcher") as pool:
        for _ in run.steps(train.step):
            pool.submit(download, run).result()
            train.step()


def download(run):
    if not run.without:
        time.sleep(0.02)  # MARK pool_threads


def pool_processes(run):
    """A pool of processes tokenises, and the loop waits for it."""
    with FORK.Pool(2) as pool:
        run.helpers["worker"] = pool._pool[0].pid
        run.helpers["worker_2"] = pool._pool[1].pid
        train = Training()
        for _ in run.steps(train.step):
            if not run.without:
                pool.map(tokenise, [120_000, 120_000])
            train.step()


def tokenise(count):
    total = 0
    for value in range(count):
        total = (total * 31 + value * value) % 1_000_003  # MARK pool_processes
    return total


def mp_queue(run):
    """A process fills a multiprocessing.Queue, through its feeder thread, slower than the loop empties it."""
    batches = FORK.Queue(maxsize=2)
    producer = FORK.Process(target=fill, args=(run, batches), daemon=True)
    producer.start()
    run.helpers["producer"] = producer.pid
    run.children.append(producer)
    train = Training()
    for _ in run.steps(train.step):
        batches.get()
        train.step()


def fill(run, batches):
    while True:
        if not run.without:
            render()
        batches.put(b"batch")


def render():
    total = 0
    for value in range(300_000):
        total = (total * 31 + value * value) % 1_000_003  # MARK mp_queue
    return total


class Pictures(torch.utils.data.Dataset):
    """Items that are slow to decode."""

    def __init__(self, run, decode):
        self.run, self.decode = run, decode

    def __len__(self):
        return 1 << 20

    def __getitem__(self, number):
        if not self.run.without:
            self.decode(number)
        return torch.zeros(LENGTH, WIDTH)


def loader_pinned(run):
    """Two workers and the thread that pins memory: the path leads through both."""
    train = Training()
    loader = torch.utils.data.DataLoader(Pictures(run, decode_picture), batch_size=BATCH, num_workers=2, pin_memory=True)
    batches = iter(loader)
    for number, worker in enumerate(batches._workers):
        run.helpers["worker" if number == 0 else "worker_2"] = worker.pid
    for _ in run.steps(train.step):
        train.step(next(batches).to("cuda", non_blocking=True))


def decode_picture(_):
    total = 0
    for value in range(60_000):
        total = (total * 31 + value * value) % 1_000_003  # MARK loader_pinned
    return total


def loader_stall(run):
    """A good loader, one of whose items takes 1.5 s."""
    train = Training()
    loader = torch.utils.data.DataLoader(Pictures(run, fetch_picture), batch_size=BATCH, num_workers=1, prefetch_factor=2)
    batches = iter(loader)
    run.helpers["worker"] = batches._workers[0].pid
    for _ in run.steps(train.step):
        train.step(next(batches).to("cuda"))


def fetch_picture(number):
    if number == 200 * BATCH:
        time.sleep(1.5)  # MARK loader_stall


def event_timeout(run):
    """Waits for an event that nobody sets, with a time-out."""
    train, event = Training(), threading.Event()
    for _ in run.steps(train.step):
        if not run.without:
            event.wait(0.015)  # MARK event_timeout
        train.step()


def select_timeout(run):
    """Waits for input that does not come."""
    train = Training()
    quiet, _ = os.pipe()
    for _ in run.steps(train.step):
        if not run.without:
            select.select([quiet], [], [], 0.015)  # MARK select_timeout
        train.step()


def asyncio_sleep(run):
    """An engine's loop that sleeps between its steps to let others run."""
    train = Training()

    async def engine():
        for _ in run.steps(train.step):
            train.step()
            if not run.without:
                await asyncio.sleep(0.015)

    asyncio.run(engine())  # MARK asyncio_sleep


def json_log(run):
    """Serialises a large record in each step, in C code."""
    train = Training()
    for _ in run.steps(train.step):
        if not run.without:
            write_record()
        train.step()


def write_record():
    for _ in range(4):
        json.dumps(RECORD)  # MARK json_log


def openmp(run):
    """Augmentation on several threads of torch's own pool."""
    train = Training()
    torch.set_num_threads(4)
    images, distorted = torch.rand(1 << 22), torch.empty(1 << 22)
    for _ in run.steps(train.step):
        if not run.without:
            distort(images, distorted)
        train.step()


def distort(images, distorted):
    for _ in range(4):
        torch.sin(images, out=distorted)  # MARK openmp


def tool_pipe(run):
    """A tool that is kept running, asked and answering over its pipes."""
    train = Training()
    command = ["sh", "-c", "while read line; do sleep 0.02; echo done; done"]
    tool = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    run.children.append(tool)
    for _ in run.steps(train.step):
        if not run.without:
            ask_tool(tool)
        train.step()


def ask_tool(tool):
    tool.stdin.write(b"next\n")
    tool.stdin.flush()
    tool.stdout.readline()  # MARK tool_pipe


def file_lock(run):
    """A lock of a file that another process holds most of the time."""
    path = os.path.join(os.environ.get("TMPDIR", "/tmp"), f"lock-{os.getpid()}")
    file = open(path, "w")
    run.start_peer("locker", path)
    train = Training()
    for _ in run.steps(train.step):
        if not run.without:
            with_lock(file)
        train.step()


def with_lock(file):
    fcntl.flock(file, fcntl.LOCK_EX)  # MARK file_lock
    fcntl.flock(file, fcntl.LOCK_UN)


def condition(run):
    """A scheduler thread hands out work with a condition, after computing what comes next."""
    train, turn = Training(), threading.Condition()
    state = {"ready": 0, "taken": 0}

    def schedule():
        with turn:
            turn.wait_for(lambda: state["ready"] == state["taken"] or run.stopped.is_set())
        if not run.without:
            plan()
        with turn:
            state["ready"] += 1
            turn.notify_all()

    run.start_thread("scheduler", schedule)
    for _ in run.steps(train.step):
        with turn:
            turn.wait_for(lambda: state["ready"] > state["taken"])
            state["taken"] += 1
            turn.notify_all()
        train.step()


def plan():
    total = 0
    for value in range(150_000):
        total = (total * 31 + value * value) % 1_000_003  # MARK condition
    return total


def script(run):
    """A Python script of its own is run every fifth step, and computes."""
    train = Training()
    for number in run.steps(train.step):
        if number % 5 == 0 and not run.without:
            subprocess.run([sys.executable, "-S", os.path.join(HERE, "peers.py"), "evaluate"])  # MARK script
        train.step()
