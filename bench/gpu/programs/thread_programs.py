"""Programs whose fault is in the process of the loop: its own thread, or a thread beside it."""

import asyncio
import gc
import hashlib
import re
import sys
import threading
import time

import torch

from loop import Skip, Training

TEXT = " ".join(f"Stalling{number % 97} tokens, endlessly{number % 13}" for number in range(900))
BLOB = bytes(8 << 20)
LOCK = threading.Lock()


def sleep(run):
    train = Training()
    for _ in run.steps(train.step):
        if not run.without:
            fetch()
        train.step()


def fetch():
    time.sleep(0.012)  # MARK fetch


def poll(run):
    train = Training()
    for _ in run.steps(train.step):
        if not run.without:
            wait_for_batch(time.monotonic() + 0.012)
        train.step()


def wait_for_batch(ready_at):
    while time.monotonic() < ready_at:
        time.sleep(0.0005)  # MARK poll


def compute(run):
    train = Training()
    for _ in run.steps(train.step):
        if not run.without:
            score(range(150_000))
        train.step()


def score(values):
    total = 0
    for value in values:
        total = (total * 31 + value * value) % 1_000_003  # MARK compute
    return total


def tokenizer(run):
    train = Training()
    ranks = {first + second: number for number, (first, second) in enumerate(zip(TEXT, TEXT[1:]))}
    for _ in run.steps(train.step):
        if not run.without:
            encode(TEXT, ranks)
        train.step()


def encode(text, ranks):
    return [piece for word in split(normalise(text)) for piece in merge(word, ranks)]


def normalise(text):
    return text.lower().replace(",", " ,")


def split(text):
    return re.findall(r"\w+|[^\w\s]", text)


def merge(word, ranks):
    """Joins the pair of lowest rank until there is none, as byte-pair encodings do."""
    pieces = list(word)
    while len(pieces) > 1:
        best = min(range(len(pieces) - 1), key=lambda at: ranks.get(pieces[at] + pieces[at + 1], len(ranks)))  # MARK tokenizer
        if pieces[best] + pieces[best + 1] not in ranks:
            break
        pieces[best:best + 2] = [pieces[best] + pieces[best + 1]]
    return pieces


def augment_torch(run):
    train = Training()
    torch.set_num_threads(1)
    images, distorted = torch.rand(1 << 18), torch.empty(1 << 18)
    for _ in run.steps(train.step):
        if not run.without:
            distort_torch(images, distorted)
        train.step()


def distort_torch(images, distorted):
    until = time.perf_counter() + 0.012
    while time.perf_counter() < until:
        torch.sin(images, out=distorted)  # MARK augment_torch


def augment_numpy(run):
    try:
        import numpy
    except ImportError as why:
        raise Skip(str(why)) from why
    train = Training()
    images = numpy.random.rand(1 << 18).astype(numpy.float32)
    distorted = numpy.empty_like(images)
    for _ in run.steps(train.step):
        if not run.without:
            distort_numpy(numpy, images, distorted)
        train.step()


def distort_numpy(numpy, images, distorted):
    until = time.perf_counter() + 0.012
    while time.perf_counter() < until:
        numpy.sin(images, out=distorted)  # MARK augment_numpy


def gc_collect(run):
    train = Training()
    heap = [[number] for number in range(400_000)]
    for _ in run.steps(train.step):
        if not run.without:
            tidy_up()
        train.step()
    heap.clear()


def tidy_up():
    gc.collect()  # MARK gc_collect


def gc_auto(run):
    """New rows outlive a few steps, so that a quarter of the heap is new again and again: then all of it is collected."""
    train = Training()
    cache = [make_rows(number) for number in range(20)]
    for number in run.steps(train.step):
        gc.disable() if run.without else gc.enable()
        cache.append(make_rows(number))
        del cache[0]
        train.step()


def make_rows(first):
    return [[number, [number]] for number in range(first, first + 20_000)]  # MARK gc_auto


def asyncio_blocked(run):
    train = Training()

    async def engine():
        events = asyncio.get_running_loop()
        for _ in run.steps(train.step):
            train.step()
            if not run.without:
                events.call_soon(detokenize)
            await asyncio.sleep(0)

    asyncio.run(engine())


def detokenize():
    total = 0
    for value in range(150_000):
        total = (total * 31 + value * value) % 1_000_003  # MARK callback
    return total


def stall_long(run):
    once(run, refresh_index)


def stall_short(run):
    once(run, reload_config)


def once(run, stall):
    """A good loop with one stall in its middle."""
    train = Training()
    stall_at = None
    for _ in run.steps(train.step):
        stall_at = stall_at or time.monotonic() + min(3, run.seconds / 2)
        if time.monotonic() > stall_at:
            stall()
            stall_at = float("inf")
        train.step()


def refresh_index():
    until = time.perf_counter() + 2
    while time.perf_counter() < until:
        sum(number * number for number in range(20_000))  # MARK refresh_index


def reload_config():
    time.sleep(0.3)  # MARK reload_config


def slow_start(run):
    train = Training()
    train.step()
    build_vocabulary()
    for _ in run.steps(train.step):
        train.step()


def build_vocabulary():
    until = time.perf_counter() + 3
    while time.perf_counter() < until:
        sum(number * number for number in range(20_000))


def gil(run):
    train = Training()
    train.step()
    run.start_thread("metrics", lambda: summarise(run))
    for _ in run.steps(train.step):
        train.step()


def summarise(run):
    """Bursts: a thread that never rests takes each of hundreds of launches 5 ms, the interpreter's switch interval."""
    total = 0
    for value in range(0 if run.without else 150_000):
        total = (total * 31 + value * value) % 1_000_003  # MARK metrics
    time.sleep(2 * sys.getswitchinterval())


def lock_sleep(run):
    locked(run, "logger", hold_asleep)


def lock_compute(run):
    locked(run, "indexer", hold_busy)


def locked(run, name, hold):
    train = Training()
    run.start_thread(name, hold)
    for _ in run.steps(train.step):
        if not run.without:
            record()
        train.step()


def record():
    with LOCK:  # MARK want_lock
        pass


def hold_asleep():
    with LOCK:
        time.sleep(0.018)  # MARK hold_asleep
    time.sleep(0.002)


def hold_busy():
    """Hashing needs no interpreter lock: the loop waits for this lock alone."""
    with LOCK:
        until = time.perf_counter() + 0.018
        while time.perf_counter() < until:
            hashlib.sha256(BLOB)  # MARK hold_busy
    time.sleep(0.002)
