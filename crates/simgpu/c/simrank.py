#!/usr/bin/env python3
"""One rank of a training on stand-in GPUs, from Python: a batch, a forward pass, an all-reduce, and a wait for them, again and again.

What may be wrong with it is said by its options; when a hang or a mismatch begins, a file beside that of the id says so (.fault). Ends with one line of JSON that says what it did, like simwork."""

import argparse
import ctypes
import json
import os
import socket
import sys
import time

from simwork import HERE, Gate, Gpu, parse_with_common

FLOAT32, SUM = 7, 0
ELEMENTS = 1 << 20


class UniqueId(ctypes.Structure):
    _fields_ = [("internal", ctypes.c_char * 128)]


class Communicator:
    """The ranks' common one; they meet through a file. The library is there from the beginning, as PyTorch has it."""

    def __init__(self, folder):
        self.nccl = ctypes.CDLL(os.path.join(folder, "libnccl.so.2"))
        void_pointer, size = ctypes.c_void_p, ctypes.c_size_t
        self.nccl.ncclCommInitRank.argtypes = [void_pointer, ctypes.c_int, UniqueId, ctypes.c_int]
        self.nccl.ncclCommSplit.argtypes = [void_pointer, ctypes.c_int, ctypes.c_int, void_pointer, void_pointer]
        self.nccl.ncclAllReduce.argtypes = [void_pointer, void_pointer, size, ctypes.c_int, ctypes.c_int, void_pointer, void_pointer]
        self.handle = ctypes.c_void_p()

    def join(self, options):
        self.nccl.ncclCommInitRank(ctypes.byref(self.handle), options.nranks, self.meet(options), options.rank)
        if options.split_when:
            self.split(options)

    def split(self, options):
        """All ranks go on with a part of the communicator that all of them are in."""
        open(f"{options.id_file}.joined-{options.rank}", "w").close()
        while not os.path.exists(options.split_when):
            time.sleep(0.002)
        part = ctypes.c_void_p()
        self.nccl.ncclCommSplit(self.handle, 0, options.rank, ctypes.byref(part), None)
        self.handle = part

    def meet(self, options):
        unique = UniqueId()
        if options.rank == 0:
            self.nccl.ncclGetUniqueId(ctypes.byref(unique))
            with open(options.id_file + ".part", "wb") as file:
                file.write(bytes(unique))
            os.rename(options.id_file + ".part", options.id_file)
        while not os.path.exists(options.id_file):
            time.sleep(0.002)
        with open(options.id_file, "rb") as file:
            return UniqueId.from_buffer_copy(file.read())

    def all_reduce(self, gradients, count, stream):
        self.nccl.ncclAllReduce(gradients, gradients, count, FLOAT32, SUM, self.handle, stream)


class Trainer:
    def __init__(self, gpu, communicator, options):
        self.gpu = gpu
        self.options = options
        self.communicator = communicator
        communicator.join(options)
        self.stream = ctypes.c_void_p()
        self.gradients = ctypes.c_void_p()
        gpu.call("cudaStreamCreate", ctypes.byref(self.stream))
        gpu.call("cudaMalloc", ctypes.byref(self.gradients), 4 * ELEMENTS)
        self.store = self.connect() if options.fetch else None

    def connect(self):
        host, port = self.options.fetch.rsplit(":", 1)
        store = socket.create_connection((host, int(port)))
        store.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return store

    def fetch_batch(self):
        """Sends what it wants and gets an answer, as from a store of features."""
        self.store.sendall(b"x" * self.options.fetch_bytes)
        return self.store.recv(1)

    def decode_batch(self):
        """Work of the CPU, by the thread's own clock: whoever takes the CPU away makes it longer."""
        until = time.thread_time_ns() + self.options.decode_us * 1000
        number = 1
        while time.thread_time_ns() < until:
            for _ in range(200):
                number = (number * 3 + 1) % 1000003
        return number

    def wait_for_batch(self):
        time.sleep(self.options.late_us / 1e6)

    def load_batch(self):
        if self.store:
            self.fetch_batch()
        if self.options.decode_us:
            self.decode_batch()
        if self.options.late_us:
            self.wait_for_batch()

    def forward(self):
        for number in range(4):
            self.gpu.launch(number % 3, self.stream)
        self.gpu.call("cudaStreamSynchronize", self.stream)

    def wait_for_checkpoint(self, gate):
        """The rank that does not come: it is alive and well, and does something else."""
        while not gate.is_stopped():
            time.sleep(0.05)

    def compute_for_ever(self, gate):
        number = 0
        while not gate.is_stopped():
            for _ in range(100000):
                number = (number * 3 + 1) % 1000003

    def step(self, number, gate):
        self.load_batch()
        self.forward()
        if number + 1 in (self.options.hang_at, self.options.mismatch_at):
            open(self.options.id_file + ".fault", "w").close()
        if number + 1 == self.options.hang_at:
            self.compute_for_ever(gate) if self.options.hang_busy else self.wait_for_checkpoint(gate)
            return
        count = ELEMENTS - (number + 1 == self.options.mismatch_at)
        self.communicator.all_reduce(self.gradients, count, self.stream)
        self.gpu.call("cudaStreamSynchronize", self.stream)


def train(gpu, communicator, gate, options):
    trainer = Trainer(gpu, communicator, options)
    steps, begin = 0, time.monotonic_ns()
    while steps < options.steps and not gate.is_stopped():
        trainer.step(steps, gate)
        steps += 1
    return {"steps": steps, "elapsed_ns": time.monotonic_ns() - begin}


def parse():
    parser = argparse.ArgumentParser(prog="simrank.py", description=__doc__.splitlines()[0])
    parser.add_argument("--rank", type=int, required=True, help="this rank")
    parser.add_argument("--nranks", type=int, required=True, help="ranks in the communicator")
    parser.add_argument("--id-file", required=True, help="where rank 0 writes the unique id and the others read it")
    parser.add_argument("--steps", type=int, default=1000, help="steps")
    parser.add_argument("--kernel-us", type=int, default=5000, help="how long each of a step's four kernels runs")
    parser.add_argument("--decode-us", type=int, default=0, help="work of the CPU in each step")
    parser.add_argument("--late-us", type=int, default=0, help="sleep in each step: this rank is late")
    parser.add_argument("--fetch", metavar="HOST:PORT", help="in each step ask there for a batch, as `simwork receive --answers` gives it")
    parser.add_argument("--fetch-bytes", type=int, default=1 << 14, help="bytes sent for a batch")
    parser.add_argument("--hang-at", type=int, default=0, help="never reach the Nth collective: this rank is missing")
    parser.add_argument("--hang-busy", action="store_true", help="it computes meanwhile; else it sleeps")
    parser.add_argument("--mismatch-at", type=int, default=0, help="in the Nth collective use another count than the others")
    parser.add_argument("--split-when", metavar="FILE", help="once the communicator is made (a file beside that of the id says so: .joined-RANK), wait for this file, then split it and use the part")
    parser.add_argument("--libraries", metavar="FOLDER", default=HERE, help="where the GPU libraries are")
    parser.add_argument("--load-late-ms", type=int, metavar="MS", help="pass the gate without any GPU library, compute for so long, then load all of them and make the communicator at once")
    return parse_with_common(parser)


def compute(milliseconds):
    until, number = time.monotonic_ns() + milliseconds * 1000000, 1
    while time.monotonic_ns() < until:
        for _ in range(200):
            number = (number * 3 + 1) % 1000003


def main():
    options = parse()
    gate = Gate(options)
    if options.load_late_ms is not None:
        gate.wait()
        compute(options.load_late_ms)
    gpu = Gpu(options.cudart, options.libraries)
    gpu.driver.simgpu_set(b"kernel_ns", options.kernel_us * 1000)
    communicator = Communicator(options.libraries)
    if options.load_late_ms is None:
        gate.wait()
    report = train(gpu, communicator, gate, options)
    truth = {"command": "rank", "pid": os.getpid(), "rank": options.rank} | report
    print(json.dumps(truth, separators=(",", ":")), flush=True)


if __name__ == "__main__":
    sys.exit(main())
