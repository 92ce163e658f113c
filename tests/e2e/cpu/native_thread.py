"""Computes in Python in a thread that is not Python's, between GPU calls that are not Python's either: native_thread.py LIBRARY.

Waits at its gate as victims do. One line of JSON goes to VICTIM_GATE.says: the CPU seconds of each function, and the process.
"""

import ctypes
import json
import os
import sys
import time

TURNS = 120
CALL_SECONDS = 0.008
GATE = os.environ["VICTIM_GATE"]
CUDA = ctypes.CDLL(os.path.join(os.environ["VICTIM_GPU"], "libcudart.so.12"), ctypes.RTLD_GLOBAL)
spent = {"with_its_state": 0.0, "with_new_states": 0.0}


def compute():
    total, begin = 0, time.thread_time()
    while time.thread_time() < begin + CALL_SECONDS:
        for number in range(200):
            total += number & 1
    return time.thread_time() - begin


def with_its_state():
    spent["with_its_state"] += compute()


def with_new_states():
    spent["with_new_states"] += compute()


def main():
    library = ctypes.CDLL(sys.argv[1])
    CUDA.cudaFree(None)
    with open(GATE + ".new", "w", encoding="utf-8") as ready:
        ready.write(str(os.getpid()))
    os.rename(GATE + ".new", GATE + ".ready")
    while not os.path.exists(GATE):
        time.sleep(0.01)
    library.run_thread(ctypes.py_object(with_its_state), TURNS, 1)
    library.run_thread(ctypes.py_object(with_new_states), TURNS, 0)
    with open(GATE + ".says", "w", encoding="utf-8") as says:
        says.write(json.dumps({"pid": os.getpid(), **spent}))


main()
