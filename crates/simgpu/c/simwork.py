#!/usr/bin/env python3
"""Workloads on the stand-in GPU from Python, through ctypes: a training loop, alone or beside a thread that keeps the GIL.

Ends with one line of JSON that says what it did, like simwork."""

import argparse
import ctypes
import json
import os
import signal
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
HOST_TO_DEVICE = 1
KERNELS = [b"_Z6matmulPKfS0_Pfi", b"_Z7softmaxPKfPfi", b"_Z10adamw_stepPfS_S_PKffi"]


class Dim3(ctypes.Structure):
    _fields_ = [("x", ctypes.c_uint), ("y", ctypes.c_uint), ("z", ctypes.c_uint)]


class Gpu:
    """The CUDA runtime, and the count of the calls that were made to it."""

    def __init__(self, cudart, folder=HERE):
        self.runtime = ctypes.CDLL(os.path.join(folder, f"libcudart.so.{cudart}"))
        self.driver = ctypes.CDLL(os.path.join(folder, "libcuda.so.1"))
        self.ops = {}
        self.tids = []
        self.loaded = set()
        void_pointer, size = ctypes.c_void_p, ctypes.c_size_t
        self.runtime.cudaLaunchKernel.argtypes = [void_pointer, Dim3, Dim3, void_pointer, size, void_pointer]
        self.runtime.cudaMemcpyAsync.argtypes = [void_pointer, void_pointer, size, ctypes.c_int, void_pointer]
        self.runtime.cudaStreamSynchronize.argtypes = [void_pointer]
        self.runtime.cudaStreamDestroy.argtypes = [void_pointer]
        self.runtime.cudaMalloc.argtypes = [void_pointer, size]
        self.runtime.cudaFree.argtypes = [void_pointer]
        self.driver.simgpu_set.argtypes = [ctypes.c_char_p, ctypes.c_uint64]
        self.runtime.__getattr__("__cudaRegisterFatBinary").restype = void_pointer
        # Addresses stand for the host stubs of a compiled program.
        self.stubs = [ctypes.create_string_buffer(1) for _ in KERNELS]
        self.register_kernels()

    def register_kernels(self):
        image = ctypes.create_string_buffer(b"simwork.py")
        binary = self.runtime.__getattr__("__cudaRegisterFatBinary")(image)
        register = self.runtime.__getattr__("__cudaRegisterFunction")
        none = ctypes.c_void_p()
        for stub, name in zip(self.stubs, KERNELS):
            register(ctypes.c_void_p(binary), stub, ctypes.c_char_p(name), ctypes.c_char_p(name), -1, none, none, none, none, none)
        count = ctypes.c_int()
        self.runtime.cudaGetDeviceCount(ctypes.byref(count))

    def count(self, op, calls=1):
        self.ops[op] = self.ops.get(op, 0) + calls

    def call(self, name, *arguments):
        result = getattr(self.runtime, name)(*arguments)
        self.count(name)
        return result

    def launch(self, kernel, stream):
        if kernel not in self.loaded:
            if not self.loaded:
                self.count("cuLibraryLoadData")
            self.count("cuLibraryGetKernel")
            self.count("cuKernelGetFunction")
            self.loaded.add(kernel)
        self.runtime.cudaLaunchKernel(ctypes.addressof(self.stubs[kernel]), Dim3(128, 2, 1), Dim3(256, 1, 1), None, 0, stream)
        self.count("cuLaunchKernel")


class Gate:
    """Lets a test attach before the first counted call, and end an endless workload."""

    def __init__(self, options):
        self.options = options
        self.signalled = False
        signal.signal(signal.SIGINT, self.on_signal)
        signal.signal(signal.SIGTERM, self.on_signal)

    def on_signal(self, number, frame):
        self.signalled = True

    def wait(self):
        start = self.options.start_file
        if not start:
            return
        with open(start + ".ready.part", "w") as file:
            file.write(f"{os.getpid()}\n")
        os.rename(start + ".ready.part", start + ".ready")
        while not os.path.exists(start) and not self.signalled:
            time.sleep(0.001)

    def is_stopped(self):
        stop = self.options.stop_file
        return self.signalled or bool(stop and os.path.exists(stop))


class Model:
    """What one step of training does."""

    def __init__(self, gpu, options):
        self.gpu = gpu
        self.options = options
        self.stream = ctypes.c_void_p()
        self.batch = ctypes.create_string_buffer(max(options.copy_bytes, 1))
        self.device_batch = ctypes.c_void_p()
        self.scratch = ctypes.c_void_p()
        gpu.call("cudaStreamCreate", ctypes.byref(self.stream))
        gpu.call("cudaMalloc", ctypes.byref(self.device_batch), max(options.copy_bytes, 1))

    def launch(self, kernel):
        self.gpu.launch(kernel, self.stream)

    def forward(self):
        for number in range(self.options.launches_per_step):
            self.launch(number % len(KERNELS))

    def load(self):
        if self.options.copy_bytes:
            self.gpu.call("cudaMemcpyAsync", self.device_batch, self.batch, self.options.copy_bytes, HOST_TO_DEVICE, self.stream)

    def reallocate(self):
        if self.scratch:
            self.gpu.call("cudaFree", self.scratch)
        self.gpu.call("cudaMalloc", ctypes.byref(self.scratch), 1 << 20)

    def step(self, number):
        self.load()
        self.forward()
        if self.options.malloc_every and (number + 1) % self.options.malloc_every == 0:
            self.reallocate()
        self.gpu.call("cudaStreamSynchronize", self.stream)

    def close(self):
        if self.scratch:
            self.gpu.call("cudaFree", self.scratch)
        self.gpu.call("cudaFree", self.device_batch)
        self.gpu.call("cudaStreamDestroy", self.stream)


def train(gpu, gate, options):
    model = Model(gpu, options)
    step_ns = []
    begin = time.monotonic_ns()
    end = begin + int(options.seconds * 1e9) if options.seconds else None
    while (not options.steps or len(step_ns) < options.steps) and not gate.is_stopped():
        step_begin = time.monotonic_ns()
        if end and step_begin >= end:
            break
        model.step(len(step_ns))
        step_ns.append(time.monotonic_ns() - step_begin)
    elapsed_ns = time.monotonic_ns() - begin
    model.close()
    gpu.tids.append(threading.get_native_id())
    report = {"steps": len(step_ns), "elapsed_ns": elapsed_ns}
    if step_ns:
        step_ns.sort()
        count = len(step_ns)
        report["step_ns"] = {"min": step_ns[0], "p50": step_ns[count // 2], "p99": step_ns[count * 99 // 100], "max": step_ns[-1]}
    return report


def keep_gil(stopped):
    """A loop without a single C call: it gives the GIL away only when the interpreter asks for it."""
    number = 0
    while not stopped[0]:
        for _ in range(10000):
            number = (number * 3 + 1) % 1000003
    return number


def gil(gpu, gate, options):
    stopped = [False]
    keepers = [threading.Thread(target=keep_gil, args=(stopped,), name="gil-keeper") for _ in range(options.keepers)]
    for keeper in keepers:
        keeper.start()
    keeper_tids = [keeper.native_id for keeper in keepers]
    try:
        report = train(gpu, gate, options)
    finally:
        stopped[0] = True
    for keeper in keepers:
        keeper.join()
    return report | {"keeper_tids": keeper_tids}


def run_delay_ns():
    """How long this thread was ready while others had the CPU, by the kernel's own account."""
    with open("/proc/thread-self/schedstat") as file:
        return int(file.read().split()[1])


def gil_in_call(gpu, gate, options):
    """Launches that call back into Python, and so need the GIL, while another thread has it and sleeps in C."""
    ask_after_ns = 5_000_000
    usleep = ctypes.PyDLL(None).usleep  # PyDLL keeps the GIL
    asked, done = threading.Semaphore(0), [False]

    def hold():
        while True:
            asked.acquire()
            if done[0]:
                return
            usleep(options.hold_ms * 1000)

    waits = []

    def inside():
        waits.append((time.monotonic_ns(), run_delay_ns()))

    callback = ctypes.CFUNCTYPE(None)(inside)
    in_launch = gpu.driver.simgpu_in_launch
    in_launch.argtypes = [ctypes.c_void_p]
    holder = threading.Thread(target=hold, name="gil-holder")
    holder.start()
    gpu.launch(0, None)
    # Long enough without the GIL, before the callback asks for it, that the holder surely has it by then.
    gpu.driver.simgpu_set(b"launch_sleep_ns", ask_after_ns)
    in_launch(callback)
    waited_ns = ready_ns = rounds = 0
    while rounds < options.steps and not gate.is_stopped():
        before_delay_ns = run_delay_ns()
        asked.release()
        begin_ns = time.monotonic_ns()
        gpu.launch(0, None)
        got_ns, delay_ns = waits.pop()
        waited_ns += got_ns - begin_ns - ask_after_ns
        ready_ns += delay_ns - before_delay_ns
        rounds += 1
    in_launch(None)
    done[0] = True
    asked.release()
    holder_tid = holder.native_id
    holder.join()
    gpu.tids.append(threading.get_native_id())
    return {"rounds": rounds, "waited_ns": waited_ns, "ready_ns": ready_ns, "holder_tid": holder_tid}


COMMANDS = {"train": train, "gil": gil, "gil-in-call": gil_in_call}


def parse_with_common(parser):
    """What every workload can be told."""
    parser.add_argument("--cpu", type=int, help="pin to this CPU")
    parser.add_argument("--cudart", type=int, default=12, choices=[12, 13], help="which libcudart")
    parser.add_argument("--start-file", help="when ready write FILE.ready (the pid), then wait until FILE exists")
    parser.add_argument("--stop-file", help="stop when FILE exists")
    options = parser.parse_args()
    if options.cpu is not None:
        os.sched_setaffinity(0, {options.cpu})
    return options


def parse():
    parser = argparse.ArgumentParser(prog="simwork.py", description=__doc__.splitlines()[0])
    about = "train: a training loop; gil: beside a thread that keeps the GIL; gil-in-call: launches that need the GIL inside"
    parser.add_argument("command", choices=COMMANDS, help=about)
    parser.add_argument("--steps", type=int, default=100, help="steps; 0: until stopped")
    parser.add_argument("--launches-per-step", type=int, default=50, help="launches in a step")
    parser.add_argument("--kernel-us", type=int, default=20, help="how long a kernel runs")
    parser.add_argument("--copy-bytes", type=int, default=1 << 20, help="bytes copied to the device in a step")
    parser.add_argument("--malloc-every", type=int, default=0, help="allocate and free in every Nth step")
    parser.add_argument("--seconds", type=float, default=0, help="stop after so long; 0: no limit")
    parser.add_argument("--keepers", type=int, default=1, help="gil: threads that keep the GIL")
    parser.add_argument("--hold-ms", type=int, default=40, help="gil-in-call: how long the other thread keeps the GIL")
    return parse_with_common(parser)


def main():
    options = parse()
    gpu = Gpu(options.cudart)
    if options.kernel_us:
        gpu.driver.simgpu_set(b"kernel_ns", options.kernel_us * 1000)
    gate = Gate(options)
    gate.wait()
    report = COMMANDS[options.command](gpu, gate, options)
    truth = {"command": options.command, "pid": os.getpid(), "ops": gpu.ops, "tids": gpu.tids} | report
    print(json.dumps(truth, separators=(",", ":")), flush=True)


if __name__ == "__main__":
    sys.exit(main())
