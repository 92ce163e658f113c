"""Programs whose fault is on the host: disks, pipes, CPUs and memory that are short."""

import mmap
import os
import pathlib
import subprocess
import time

import torch

from loop import Skip, Training

SLOW_READ_S = 0.015
CHUNK = 4 << 20
REGION_BYTES, LIMIT_BYTES = 128 << 20, str(48 << 20)
CGROUPS = pathlib.Path("/sys/fs/cgroup")


class DirectFile:
    """Reads past the page cache, so that the disk's pace is the reader's. Each read takes so many chunks that it is slow."""

    def __init__(self, path):
        try:
            self.number = os.open(path, os.O_RDONLY | os.O_DIRECT)
        except OSError as why:
            raise Skip(f"no direct reads of {path}: {why}") from why
        self.size = os.path.getsize(path) // CHUNK * CHUNK
        self.buffer = mmap.mmap(-1, CHUNK)
        self.at = 0
        # The first reads are slower than the rest: the second round is the measure.
        for _ in range(2):
            began = time.perf_counter()
            for _ in range(4):
                os.preadv(self.number, [self.buffer], self.advance())
        self.chunks = max(1, round(SLOW_READ_S * 4 / (time.perf_counter() - began)))

    def advance(self):
        self.at = (self.at + CHUNK) % self.size
        return self.at


def disk_read(run):
    train = Training()
    file = DirectFile(run.data)
    for _ in run.steps(train.step):
        if not run.without:
            read_batch(file)
        train.step()


def read_batch(file):
    for _ in range(file.chunks):
        os.preadv(file.number, [file.buffer], file.advance())  # MARK disk_read


def checkpoint(run):
    train = Training()
    path = run.data + ".checkpoint"
    for number in run.steps(train.step):
        train.step()
        if number % 20 == 19 and not run.without:
            save_checkpoint(train.model, path)
    pathlib.Path(path).unlink(missing_ok=True)


def save_checkpoint(model, path):
    with open(path, "wb") as file:
        torch.save(model.state_dict(), file)  # MARK checkpoint
        file.flush()
        os.fsync(file.fileno())  # MARK checkpoint


def log_pipe(run):
    train = Training()
    reader = run.start_peer("reader", stdin=subprocess.PIPE)
    line = b"a line of a log that says a lot\n" * 2048
    for _ in run.steps(train.step):
        if not run.without:
            log(reader.stdin.fileno(), line)
        train.step()


def log(pipe, line):
    os.write(pipe, line)  # MARK log_pipe


def cpu_neighbour(run):
    """Pinned before CUDA starts, so that every thread of the program is."""
    core = max(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {core})
    train = Training()
    train.step()
    if not run.without:
        run.start_peer("busy", str(core))
    for _ in run.steps(train.step):
        train.step()


def own_group(controller):
    """The folder of this process's cgroup of a controller, and whether it is of version 2."""
    version_2 = (CGROUPS / "cgroup.controllers").exists()
    for line in pathlib.Path("/proc/self/cgroup").read_text().splitlines():
        _, names, path = line.split(":", 2)
        if version_2 and not names:
            return CGROUPS / path.lstrip("/"), True
        if not version_2 and controller in names.split(","):
            # In a container the path may be one of the host's, and its own group is the root of what it sees.
            folders = [CGROUPS / names / path.lstrip("/"), CGROUPS / controller / path.lstrip("/"), CGROUPS / controller]
            return next((folder for folder in folders if folder.is_dir()), CGROUPS / controller), False
    raise Skip(f"this process has no cgroup of the controller {controller}")


class LimitedGroup:
    """A cgroup for this process with a limit, gone at the end. A host that gives none skips the program."""

    def __init__(self, controller, limits):
        self.home, version_2 = own_group(controller)
        # A group of version 2 that has processes can have no children with limits, unless it is the root: so, beside it.
        parent = self.home.parent if version_2 and self.home != CGROUPS else self.home
        self.folder = parent / f"gpuwhy-truth-{os.getpid()}"
        try:
            if version_2:
                (parent / "cgroup.subtree_control").write_text(f"+{controller}")
            self.folder.mkdir()
            for name, value in limits[2 if version_2 else 1].items():
                (self.folder / name).write_text(value)
        except OSError as why:
            self.remove()
            raise Skip(f"no cgroup can be limited here: {why}") from why

    def remove(self):
        if self.folder.is_dir():
            self.folder.rmdir()

    def __enter__(self):
        (self.folder / "cgroup.procs").write_text(str(os.getpid()))

    def __exit__(self, *_):
        (self.home / "cgroup.procs").write_text(str(os.getpid()))
        self.remove()


def cpu_quota(run):
    train = Training()
    train.step()
    limits = {1: {"cpu.cfs_period_us": "100000", "cpu.cfs_quota_us": "50000"}, 2: {"cpu.max": "50000 100000"}}
    with LimitedGroup("cpu", limits):
        for _ in run.steps(train.step):
            train.step()


def memory_limit(run):
    """What the process has by now is charged to its old group; the file's pages, to the new one, which is too small."""
    train = Training()
    train.step()
    file = os.open(run.data, os.O_RDONLY)
    os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
    pages = mmap.mmap(file, REGION_BYTES, prot=mmap.PROT_READ)
    pages.madvise(mmap.MADV_RANDOM)
    with LimitedGroup("memory", {1: {"memory.limit_in_bytes": LIMIT_BYTES}, 2: {"memory.max": LIMIT_BYTES}}):
        # More than the limit lets stay: from here on each look needs a page that was pushed out.
        sum(pages[at] for at in range(0, len(pages), mmap.PAGESIZE))
        for number in run.steps(train.step):
            if not run.without:
                look_up(pages, number)
            train.step()


def look_up(pages, number):
    """One byte of each of 200 pages, others each time."""
    stride = len(pages) // 200 // mmap.PAGESIZE * mmap.PAGESIZE
    first = number * mmap.PAGESIZE % stride
    return sum(pages[at] for at in range(first, len(pages), stride))  # MARK memory_limit
