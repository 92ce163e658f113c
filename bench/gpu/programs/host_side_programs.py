"""Programs in which the host does something else than computing: databases, shells, locks of processes, sockets, pools."""

import concurrent.futures
import json
import multiprocessing
import os
import re
import socket
import sqlite3
import subprocess
import sys
import threading
import time

import torch
from torch.utils.data import DataLoader, Dataset

from loop import BATCH, HERE, LENGTH, Training, WIDTH

FORK = multiprocessing.get_context("fork")
LINES = [f"2026-11-{number % 28 + 1:02d} host-{number % 17} WARN  retry={number} took {number * 13 % 997} ms path=/a/b/{number}" for number in range(2_000)]
LARGE_JSON = json.dumps([{"id": number, "name": f"item-{number}", "tags": [number % 3, number % 5], "score": number / 7} for number in range(30_000)])
CHUNK = 4 << 20


def start_child(run, name, work, *arguments):
    """Forks a process, before CUDA is used here, and reports it as a helper."""
    process = FORK.Process(target=work, args=(run, *arguments), daemon=True)
    process.start()
    run.helpers[name] = process.pid
    run.children.append(process)


def sqlite_log(run):
    """Commits a row to a database on the disk in each step."""
    train = Training()
    path = run.data + ".sqlite"
    database = sqlite3.connect(path)
    database.execute("PRAGMA synchronous = FULL")
    database.execute("CREATE TABLE IF NOT EXISTS steps (step, loss)")
    for step in run.steps(train.step):
        if not run.without:
            log_steps(database, step)
        train.step()
    database.close()
    os.unlink(path)


def log_steps(database, step):
    for part in range(3):
        database.execute("INSERT INTO steps VALUES (?, ?)", (step, part / 3))
        database.commit()  # MARK sqlite_log


def regex_filter(run):
    """Searches a log with regular expressions in each step."""
    train = Training()
    pattern = re.compile(r"(\w+-\d+)\s+WARN\s+retry=(\d+).*?took (\d+) ms.*?/(\d+)$")
    for _ in run.steps(train.step):
        if not run.without:
            filter_lines(pattern)
        train.step()


def filter_lines(pattern):
    return sum(len(match.groups()) for line in LINES * 6 if (match := pattern.search(line)))  # MARK regex_filter


def json_thread(run):
    """A thread parses large JSON texts in C with the GIL held."""
    train = Training()

    def refresh():
        if run.without:
            time.sleep(0.02)
        else:
            load_config()
        time.sleep(0.002)

    run.start_thread("config", refresh)
    for _ in run.steps(train.step):
        train.step()


def load_config():
    return json.loads(LARGE_JSON)  # MARK json_thread


def process_lock(run):
    """A lock of multiprocessing that another process holds while it computes."""
    lock = FORK.Lock()
    start_child(run, "owner", own_lock, lock)
    train = Training()
    for _ in run.steps(train.step):
        if not run.without:
            with lock:  # MARK want_process_lock
                pass
        train.step()


def own_lock(run, lock):
    while True:
        with lock:
            settle()
        time.sleep(0.002)


def settle():
    total = 0
    for value in range(250_000):
        total = (total + value * 7) % 9_973  # MARK settle
    return total


def unix_engine(run):
    """An engine that asks a scheduler process over a Unix socket, which sleeps before it answers."""
    mine, theirs = socket.socketpair()
    start_child(run, "scheduler", schedule, theirs)
    train = Training()

    def step():
        mine.sendall(b"next?")
        mine.recv(64)  # MARK unix_engine
        train.infer()

    for _ in run.steps(step):
        step()


def schedule(run, connection):
    while connection.recv(64):
        if not run.without:
            wait_for_slot()
        connection.sendall(b"batch")


def wait_for_slot():
    time.sleep(0.014)  # MARK wait_for_slot


def shell_out(run):
    """os.system in each tenth step."""
    train = Training()
    for step in run.steps(train.step):
        if step % 10 == 0 and not run.without:
            sync_files()
        train.step()


def sync_files():
    os.system("sleep 0.08; true")  # MARK shell_out


def pool_reads(run):
    """Threads of a pool read parts of a file past the page cache, and are awaited."""
    train = Training()
    size = os.path.getsize(run.data)
    offsets = [0]
    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        for _ in run.steps(train.step):
            if not run.without:
                wanted = [(offsets[0] + number * CHUNK) % (size - CHUNK) // 4096 * 4096 for number in range(3)]
                offsets[0] += 3 * CHUNK
                list(pool.map(lambda offset: read_part(run.data, offset), wanted))
            train.step()


def read_part(path, offset):
    file = os.open(path, os.O_RDONLY | os.O_DIRECT)
    try:
        buffer = torch.empty(CHUNK + 4096, dtype=torch.uint8)
        start = -buffer.data_ptr() % 4096
        view = memoryview(buffer.numpy())[start:start + CHUNK]
        return os.preadv(file, [view], offset)  # MARK pool_reads
    finally:
        os.close(file)


def silent_peer(run):
    """Asks a service that does not answer, until its time is up."""
    listener = socket.create_server(("127.0.0.1", 0))
    train = Training()
    for step in run.steps(train.step):
        if step % 4 == 0 and not run.without:
            ask(listener.getsockname()[1])
        train.step()


def ask(port):
    with socket.create_connection(("127.0.0.1", port)) as service:
        service.settimeout(0.05)
        try:
            service.recv(1)  # MARK silent_peer
        except TimeoutError:
            return


def slots(run):
    """A semaphore whose slots a thread holds while it writes and syncs a file."""
    train, free = Training(), threading.Semaphore(1)
    file = os.open(run.data + ".spill", os.O_CREAT | os.O_RDWR)

    def spill():
        with free:
            spill_pages(file) if not run.without else time.sleep(0.001)
        time.sleep(0.004)

    run.start_thread("spiller", spill)
    for _ in run.steps(train.step):
        with free:  # MARK want_slot
            pass
        train.step()
    os.close(file)
    os.unlink(run.data + ".spill")


def spill_pages(file):
    os.pwrite(file, os.urandom(1 << 20), 0)  # MARK fill_page
    for number in range(6):
        os.pwrite(file, b"x" * 65_536, number << 16)
        os.fsync(file)  # MARK spill_pages


class Table(Dataset):
    """Rows that cost nothing."""

    def __len__(self):
        return 12

    def __getitem__(self, _):
        return torch.zeros(LENGTH, WIDTH)


def epoch_workers(run):
    """Workers are started anew for each short epoch."""
    train = Training()

    def batches():
        while True:
            yield from new_epoch(run)

    source = batches()
    for _ in run.steps(train.step):
        train.step(next(source)[:BATCH].cuda())


def new_epoch(run):
    loader = DataLoader(Table(), batch_size=BATCH // 4, num_workers=0 if run.without else 2)
    yield from (rows.repeat(4, 1, 1) for rows in loader)  # MARK epoch_workers


def shared_core(run):
    """A process of its own computes on the same single CPU."""
    cores = sorted(os.sched_getaffinity(0))
    start_child(run, "indexer", index_forever, cores[-1])
    train = Training()
    os.sched_setaffinity(0, {cores[-1]})
    for _ in run.steps(train.step):
        train.step()


def index_forever(run, core):
    os.sched_setaffinity(0, {core})
    while True:
        if run.without:
            time.sleep(0.01)
        sum(number * number for number in range(20_000))


def result_queue(run):
    """A process takes results off a queue of one place, and computes on each before it takes the next."""
    results = FORK.Queue(1)
    start_child(run, "sink", take_results, results)
    train = Training()
    for step in run.steps(train.step):
        train.step()
        hand_over(results, step)


def hand_over(results, step):
    results.put(step)  # MARK hand_over


def take_results(run, results):
    while True:
        results.get()
        if not run.without:
            summarise_result()


def summarise_result():
    total = 0
    for value in range(300_000):
        total = (total * 5 + value) % 99_991  # MARK result_queue
    return total


def ordinary_script(run):
    """Reads its batches from a file in the page cache, prints its loss now and then, keeps a small checkpoint: nothing wrong."""
    train = Training()
    with open(os.devnull, "w") as log:
        for step in run.steps(train.step):
            train.step()
            if step % 20 == 0:
                print(f"step {step}: {train.loss.item():.4f}", file=log)


def tool_each(run):
    """A Python tool is started for every eighth step, and asked over its standard streams."""
    train = Training()
    for step in run.steps(train.step):
        if step % 8 == 0 and not run.without:
            run_checker()
        train.step()


def run_checker():
    return subprocess.run([sys.executable, "-S", os.path.join(HERE, "peers.py"), "evaluate"], input=b"x", capture_output=True, check=False).stdout  # MARK tool_each
