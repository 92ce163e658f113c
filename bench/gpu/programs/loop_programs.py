"""Programs in the style of a plain script: everything by hand, with what scripts do beside their training step."""

import functools
import gc
import hashlib
import io
import json
import multiprocessing
import os
import re
import subprocess
import threading
import time
import zlib

import torch
import torch.utils.data

from loop import BATCH, LENGTH, WIDTH, Training
from thread_programs import once

BLOB = bytes(4 << 20)
COMPACTING = threading.Lock()
LINE = json.dumps({"text": " ".join(f"Some{number % 53} <b>markup</b> &amp; more{number}" for number in range(260)), "label": 3})


def limited(per_second):
    """No more calls in a second than this."""

    def decorate(function):
        last = [0.0]

        @functools.wraps(function)
        def wrapper(*arguments):
            early = last[0] + 1 / per_second - time.monotonic()
            if early > 0:
                time.sleep(early)  # MARK rate_limit
            last[0] = time.monotonic()
            return function(*arguments)

        return wrapper

    return decorate


@limited(per_second=35)
def report_progress(history, number):
    history[:] = [*history[-9:], number]


def rate_limit(run):
    """What looks like a call that costs nothing sleeps in its decorator."""
    train, history = Training(), []
    for number in run.steps(train.step):
        if not run.without:
            report_progress(history, number)
        train.step()


def zip_checkpoint(run):
    """Every 25 steps the first block is saved compressed."""
    train = Training()
    for number in run.steps(train.step):
        train.step()
        if number % 25 == 24 and not run.without:
            save_compressed(train.model[0])


def save_compressed(block):
    file = io.BytesIO()
    torch.save(block.state_dict(), file)
    return zlib.compress(file.getvalue()[:6 << 20], 1)  # MARK zip_checkpoint


class Deep:
    """Many small layers, trained with few launches for each."""

    def __init__(self):
        self.model = torch.nn.Sequential(*(torch.nn.Linear(128, 128) for _ in range(48))).cuda()
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=1e-4, foreach=True)
        self.inputs = torch.randn(64, 128, device="cuda")

    def step(self):
        self.optimizer.zero_grad(set_to_none=True)
        self.model(self.inputs).square().mean().backward()
        self.optimizer.step()


def ema(run):
    """Averages of the weights with six decays, one small tensor after the other."""
    train = Deep()
    averages = {decay: [weight.detach().clone() for weight in train.model.parameters()] for decay in (0.5, 0.8, 0.9, 0.99, 0.999, 0.9999)}
    for _ in run.steps(train.step):
        train.step()
        if not run.without:
            average_weights(train.model, averages)


@torch.no_grad()
def average_weights(model, averages):
    for decay, weights in averages.items():
        for average, weight in zip(weights, model.parameters()):
            average.mul_(decay)  # MARK ema
            average.add_(weight, alpha=1 - decay)  # MARK ema


class Wide:
    """A model so wide that its GPU work is the path: about 9 ms a step on an H200."""

    def __init__(self):
        layers = (torch.nn.Linear(4096, 4096, bias=False, device="cuda", dtype=torch.bfloat16) for _ in range(6))
        self.model = torch.nn.Sequential(*layers)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=1e-4, foreach=True)
        self.inputs = torch.randn(8192, 4096, device="cuda", dtype=torch.bfloat16)
        self.loss = None

    def backward(self):
        self.optimizer.zero_grad(set_to_none=True)
        self.loss = self.model(self.inputs).square().mean()
        self.loss.backward()

    def step(self):
        self.backward()
        self.optimizer.step()


def grad_norms(run):
    """The norm of each gradient is read before the optimizer's step, and rows are parsed only then: neither overlaps."""
    train = Wide()
    for _ in run.steps(train.step):
        train.backward()
        if not run.without:
            read_norms(train.model)
        train.optimizer.step()
        parse_rows(90_000)


def read_norms(model):
    return [weight.grad.norm().item() for weight in model.parameters()]  # MARK grad_norms


def parse_rows(count):
    checksum = 0
    for value in range(count):
        checksum = (checksum * 17 + value) % 65_521  # MARK parse_rows
    return checksum


def preview(run):
    """A large activation is looked at on the host in each step."""
    train = Training()
    activation = torch.randn(30_000_000, device="cuda")
    for _ in run.steps(train.step):
        train.step()
        if not run.without:
            look_at(activation)


def look_at(activation):
    return activation.cpu().numpy()[::65_536].max()  # MARK preview


def small_uploads(run):
    """The boxes of each sample go to the GPU one by one."""
    train = Training()
    boxes = [torch.full((4,), float(number)) for number in range(700)]
    for _ in run.steps(train.step):
        if not run.without:
            upload_boxes(boxes)
        train.step()


def upload_boxes(boxes):
    return [box.to("cuda") for box in boxes]  # MARK small_uploads


class Lines(torch.utils.data.Dataset):
    """Parses and cleans a line of JSON for each sample."""

    def __init__(self, run):
        self.run = run

    def __len__(self):
        return 1 << 20

    def __getitem__(self, number):
        if not self.run.without:
            parse_line()
        return torch.zeros(LENGTH, WIDTH)


def parse_line():
    for _ in range(8):
        text = json.loads(LINE)["text"]  # MARK json_dataset
        text = re.sub(r"<[^>]+>|&\w+;", " ", text)  # MARK json_dataset
        words = re.findall(r"\w+", text.lower())  # MARK json_dataset
    return words


def json_dataset(run):
    """A DataLoader without workers: the dataset parses in the loop's own thread."""
    train = Training()
    batches = iter(torch.utils.data.DataLoader(Lines(run), batch_size=BATCH, num_workers=0))
    for _ in run.steps(train.step):
        train.step(next(batches).to("cuda"))


class Shards(torch.utils.data.IterableDataset):
    """Each worker has its shard; one of them is packed."""

    def __init__(self, run):
        super().__init__()
        self.run = run

    def __iter__(self):
        is_packed = torch.utils.data.get_worker_info().id == 2
        packed, batch = zlib.compress(bytes(1 << 20), 1), torch.zeros(BATCH, LENGTH, WIDTH)
        while True:
            if is_packed and not self.run.without:
                unpack_shard(packed)
            yield batch


def unpack_shard(packed):
    until = time.perf_counter() + 0.1
    while time.perf_counter() < until:
        zlib.decompress(packed)  # MARK slow_worker


def slow_worker(run):
    """Four workers in turn, of which one is slow."""
    train = Training()
    batches = iter(torch.utils.data.DataLoader(Shards(run), batch_size=None, num_workers=4))
    run.helpers["worker"] = batches._workers[2].pid
    for _ in run.steps(train.step):
        train.step(next(batches).to("cuda"))


class Store(torch.utils.data.IterableDataset):
    """All workers read one remote store, one at a time."""

    def __init__(self, run, lock):
        super().__init__()
        self.run, self.lock = run, lock

    def __iter__(self):
        batch = torch.zeros(BATCH, LENGTH, WIDTH)
        while True:
            with self.lock:  # MARK store_lock
                read_store(self.run)
            yield batch


def read_store(run):
    if not run.without:
        time.sleep(0.022)  # MARK read_store


def shared_reader(run):
    """Three workers are no faster than one: a lock is around what they wait for."""
    train = Training()
    store = Store(run, multiprocessing.get_context("fork").Lock())
    batches = iter(torch.utils.data.DataLoader(store, batch_size=None, num_workers=3))
    run.helpers.update({f"worker_{number}": worker.pid for number, worker in enumerate(batches._workers)})
    for _ in run.steps(train.step):
        train.step(next(batches).to("cuda"))


def loss_prints(run):
    """Bound by the GPU; the loss is printed every 50 steps."""
    train = Wide()
    for number in run.steps(train.step):
        train.step()
        if number % 50 == 49:
            print("step", number, "loss", train.loss.item(), flush=True)


def multi_stream(run):
    """Two streams with large products, joined in each step."""
    streams = [torch.cuda.Stream() for _ in range(2)]
    left = torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16)
    outs = [torch.empty_like(left) for _ in streams]

    def step():
        for stream, out in zip(streams, outs):
            stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(stream):
                for _ in range(4):
                    torch.matmul(left, left, out=out)
        for stream in streams:
            torch.cuda.current_stream().wait_stream(stream)
        outs[0].add_(outs[1])

    for _ in run.steps(step):
        step()


def stall_fsync(run):
    once(run, lambda: flush_index(run.data + ".index"))


def flush_index(path):
    """Writes to the disk for 1.2 s."""
    file, block = os.open(path, os.O_CREAT | os.O_WRONLY), bytes(1 << 20)
    until = time.perf_counter() + 1.2
    while time.perf_counter() < until:
        os.pwrite(file, block, 0)
        os.fsync(file)  # MARK flush_index
    os.close(file)
    os.unlink(path)


def stall_child(run):
    once(run, export_model)


def export_model():
    subprocess.run(["sleep", "0.8"], check=True)  # MARK export_model


def stall_gc(run):
    heap = [[number] for number in range(500_000)]
    once(run, free_memory)
    heap.clear()


def free_memory():
    """Collects again and again for 0.7 s."""
    until = time.perf_counter() + 0.7
    while time.perf_counter() < until:
        gc.collect()  # MARK free_memory


def stall_lock(run):
    """Once, a thread compacts a table for 1.5 s with the lock that each step takes."""
    due = threading.Event()

    def maintain():
        if due.wait(0.1):
            due.clear()
            with COMPACTING:
                compact()

    train, due_at = Training(), None
    run.start_thread("compactor", maintain)
    for _ in run.steps(train.step):
        due_at = due_at or time.monotonic() + min(3, run.seconds / 2)
        if time.monotonic() > due_at:
            due.set()
            due_at = float("inf")
        with COMPACTING:  # MARK want_table
            pass
        train.step()


def compact():
    until = time.perf_counter() + 1.5
    while time.perf_counter() < until:
        hashlib.sha256(BLOB)  # MARK compact
