"""A Python program that knows where its CPU time goes: busy.py SECONDS for each of its phases.

It makes a GPU call, waits at its gate as victims do, then computes in `hot`, collects garbage in `collect`, and burns CPU
time within GPU calls in `call`. One line of JSON goes to VICTIM_GATE.says: the CPU seconds of each phase, and its thread.
"""

import ctypes
import gc
import json
import os
import sys
import threading
import time

SECONDS = float(sys.argv[1])
GATE = os.environ["VICTIM_GATE"]
CUDA = ctypes.CDLL(os.path.join(os.environ["VICTIM_GPU"], "libcudart.so.12"))


def hot(until):
    turns = 0
    while time.thread_time() < until:
        for number in range(1000):
            turns += number & 1
    return turns


def collect(until):
    nodes = [[] for _ in range(200_000)]
    for node in nodes:
        node.append(nodes)
    while time.thread_time() < until:
        gc.collect()


def call(until):
    while time.thread_time() < until:
        memory = ctypes.c_void_p()
        CUDA.cudaMalloc(ctypes.byref(memory), ctypes.c_size_t(4096))
        CUDA.cudaFree(memory)


def main():
    CUDA.cudaFree(None)
    with open(GATE + ".new", "w", encoding="utf-8") as ready:
        ready.write(str(os.getpid()))
    os.rename(GATE + ".new", GATE + ".ready")
    while not os.path.exists(GATE):
        time.sleep(0.01)
    gc.disable()
    told = {"pid": os.getpid(), "tid": threading.get_native_id()}
    for phase in (hot, collect, call):
        begin = time.thread_time()
        phase(begin + SECONDS)
        told[phase.__name__] = time.thread_time() - begin
    with open(GATE + ".says", "w", encoding="utf-8") as says:
        says.write(json.dumps(told))


main()
