"""What the programs share: a small training step, and the timed loop that reports what it did."""

import ctypes
import json
import multiprocessing
import os
import signal
import statistics
import subprocess
import sys
import threading
import time

import torch

HERE = os.path.dirname(os.path.abspath(__file__))
WIDTH, LAYERS, HEADS, BATCH, LENGTH = 512, 4, 8, 8, 64
WARM_UP_STEPS = 10
PR_SET_NAME = 15
# Of turns with the fault and without it.
TURN_S, MIN_TURNS, SETTLING_STEPS = 0.25, 5, 6
# Faults that come every third or fifth step come equally often in each turn.
STEPS_OF_A_PERIOD = 15


class Skip(Exception):
    """The program cannot run on this host; the text says why."""


class Run:
    """One run of one program: its options, what it reports, and its loop."""

    def __init__(self, options):
        self.seconds = options.seconds
        self.turns = options.turns
        # In shared memory: workers that are forked see when it changes.
        self.is_without = multiprocessing.Value("b", options.without, lock=False)
        self.data = options.data
        self.peer = options.peer
        self.report_to = options.report
        self.helpers = {}
        self.threads = {}
        self.children = []
        self.stopped = threading.Event()
        # A trace that attaches late ends before the loop does: then the loop is told to end.
        signal.signal(signal.SIGTERM, lambda *_: self.stopped.set())

    @property
    def without(self):
        """Whether the fault is to be left out just now."""
        return bool(self.is_without.value)

    def report(self, **what):
        text = json.dumps(what) + "\n"
        if self.report_to:
            with open(self.report_to, "a") as file:
                file.write(text)
        else:
            print(text, end="", flush=True)

    def steps(self, warm):
        """Warms up, then yields step numbers for the time asked for, and reports how long the steps took."""
        for _ in range(WARM_UP_STEPS):
            warm()
        torch.cuda.synchronize()
        self.report(loop=True, pid=os.getpid(), helpers=self.helpers, threads=self.threads)
        if self.turns:
            yield from self.in_turns()
            return
        times_ms, began = [], time.perf_counter()
        until = began + self.seconds
        start = began
        while start < until and not self.stopped.is_set():
            yield len(times_ms)
            end = time.perf_counter()
            times_ms.append((end - start) * 1e3)
            start = end
        torch.cuda.synchronize()
        mean_ms = (time.perf_counter() - began) * 1e3 / len(times_ms)
        self.report(steps=len(times_ms), median_ms=round(statistics.median(times_ms), 3), mean_ms=round(mean_ms, 3))

    def in_turns(self):
        """Steps with the fault and without it in short turns of one process, so that what differs between runs, and from
        one second to the next, cancels. Reports what a step takes in each kind of turn, less its first steps: what was made
        ready before must be used up. `saving_ms` is of a step of the whole run, of which only some have the fault: what its
        mean step takes more than one without."""
        began, number, turns_ms = time.perf_counter(), 0, {False: [], True: []}
        until = began + self.seconds
        while (time.perf_counter() < until or len(turns_ms[True]) < MIN_TURNS) and not self.stopped.is_set():
            for without in (False, True):
                self.is_without.value = without
                for _ in range(SETTLING_STEPS):
                    yield number
                    number += 1
                torch.cuda.synchronize()
                steps, start = 0, time.perf_counter()
                while time.perf_counter() < start + TURN_S or steps % STEPS_OF_A_PERIOD:
                    yield number
                    steps, number = steps + 1, number + 1
                torch.cuda.synchronize()
                turns_ms[without].append((time.perf_counter() - start) * 1e3 / steps)
        with_ms, without_ms = (statistics.mean(turns_ms[without]) for without in (False, True))
        error_ms = 1.96 * statistics.stdev(turns_ms[True]) / len(turns_ms[True]) ** 0.5
        mean_ms = (time.perf_counter() - began) * 1e3 / number
        self.report(steps=number, mean_ms=round(mean_ms, 3), median_ms=round(mean_ms, 3), saving_ms=round(mean_ms - without_ms, 3),
                    saving_error_ms=round(error_ms, 3), with_ms=round(with_ms, 3), without_ms=round(without_ms, 3))

    def start_peer(self, name, *arguments, **options):
        """Starts a process of `peers.py`, which has no PyTorch, and reports it as a helper."""
        process = subprocess.Popen([sys.executable, os.path.join(HERE, "peers.py"), name, *arguments], **options)
        self.helpers[name] = process.pid
        self.children.append(process)
        return process

    def start_thread(self, name, work):
        """Starts a thread that the kernel, too, knows by that name. `work` is called until the loop ends."""
        named = threading.Event()

        def body():
            ctypes.CDLL(None).prctl(PR_SET_NAME, name.encode(), 0, 0, 0)
            self.threads[name] = threading.get_native_id()
            named.set()
            while not self.stopped.is_set():
                work()

        threading.Thread(target=body, daemon=True).start()
        named.wait()

    def end(self):
        self.stopped.set()
        for child in self.children:
            child.kill()


class Block(torch.nn.Module):
    """Attention and a small network, one launch at a time."""

    def __init__(self):
        super().__init__()
        self.norm_1, self.norm_2 = torch.nn.LayerNorm(WIDTH), torch.nn.LayerNorm(WIDTH)
        self.qkv, self.out = torch.nn.Linear(WIDTH, 3 * WIDTH), torch.nn.Linear(WIDTH, WIDTH)
        self.up, self.down = torch.nn.Linear(WIDTH, 4 * WIDTH), torch.nn.Linear(4 * WIDTH, WIDTH)

    def heads(self, x):
        return x.view(x.shape[0], x.shape[1], HEADS, WIDTH // HEADS).transpose(1, 2)

    def forward(self, x):
        q, k, v = (self.heads(part) for part in self.qkv(self.norm_1(x)).chunk(3, dim=-1))
        scores = torch.softmax(q @ k.transpose(-2, -1) * (WIDTH // HEADS) ** -0.5, dim=-1)
        x = x + self.out((scores @ v).transpose(1, 2).reshape(x.shape))
        return x + self.down(torch.nn.functional.gelu(self.up(self.norm_2(x))))


class Training:
    """The training step of most programs: many launches, so that the CPU is the path and its stalls count."""

    def __init__(self):
        self.model = torch.nn.Sequential(*(Block() for _ in range(LAYERS))).cuda()
        # One parameter at a time: hundreds of small launches.
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-4, foreach=False)
        self.inputs = torch.randn(BATCH, LENGTH, WIDTH, device="cuda")
        self.loss = None

    def step(self, inputs=None):
        self.optimizer.zero_grad(set_to_none=True)
        self.loss = self.model(self.inputs if inputs is None else inputs).square().mean()
        self.loss.backward()
        self.optimizer.step()

    @torch.no_grad()
    def infer(self):
        x = self.inputs
        for _ in range(4):
            x = self.model(x)
        return x
