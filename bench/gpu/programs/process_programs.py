"""Programs that wait for another process: workers, children, peers, and the API process of an engine."""

import mmap
import multiprocessing
import os
import socket
import subprocess
import tempfile
import time
from http.client import HTTPConnection

import torch
import torch.utils.data

from host_programs import DirectFile
from loop import BATCH, LENGTH, WIDTH, Skip, Training

FORK = multiprocessing.get_context("fork")


class Batches(torch.utils.data.IterableDataset):
    """Batches without end, each made ready by `prepare`."""

    def __init__(self, run, prepare):
        super().__init__()
        self.run, self.prepare = run, prepare

    def __iter__(self):
        batch = torch.zeros(BATCH, LENGTH, WIDTH)
        while True:
            if not self.run.without:
                self.prepare()
            yield batch


def with_loader(run, prepare):
    train = Training()
    batches = iter(torch.utils.data.DataLoader(Batches(run, prepare), batch_size=None, num_workers=1))
    run.helpers["worker"] = batches._workers[0].pid
    for _ in run.steps(train.step):
        train.step(next(batches).to("cuda"))


def train_loader(run):
    with_loader(run, ready)


def ready():
    """A worker with nothing to do."""


def loader_cpu(run):
    with_loader(run, decode)


def decode():
    total = 0
    for value in range(400_000):
        total = (total * 31 + value * value) % 1_000_003  # MARK loader_cpu
    return total


def loader_sleep(run):
    with_loader(run, await_shard)


def await_shard():
    time.sleep(0.03)  # MARK loader_sleep


def loader_lock(run):
    """Each batch needs what another process has for most of the time."""
    lock = FORK.Lock()
    holder = FORK.Process(target=hold, args=(lock,), daemon=True)
    holder.start()
    run.helpers["holder"] = holder.pid
    with_loader(run, lambda: want(lock))


def hold(lock):
    while True:
        with lock:
            time.sleep(0.03)  # MARK loader_lock_holder
        time.sleep(0.001)


def want(lock):
    with lock:  # MARK loader_lock
        pass


def loader_disk(run):
    file = DirectFile(run.data)
    with_loader(run, lambda: read_shard(file))


def read_shard(file):
    """Twice as slow as a step, since the worker reads while the loop steps."""
    for _ in range(2 * file.chunks):
        os.preadv(file.number, [file.buffer], file.advance())  # MARK loader_disk


def child(run):
    train = Training()
    for number in run.steps(train.step):
        if number % 3 == 0 and not run.without:
            run_tool()
        train.step()


def run_tool():
    subprocess.run(["sleep", "0.03"])  # MARK child


def http(run):
    train = Training()
    train.step()
    port = int(run.start_peer("server", stdout=subprocess.PIPE).stdout.readline())
    for _ in run.steps(train.step):
        if not run.without:
            ask_server(port)
        train.step()


def ask_server(port):
    connection = HTTPConnection("127.0.0.1", port)
    connection.request("GET", "/")
    answer = connection.getresponse().read()
    connection.close()
    return answer


def foreign(run):
    train = Training()
    with socket.create_connection(("127.0.0.1", run.peer)) as peer:
        for _ in run.steps(train.step):
            if not run.without:
                ask_peer(peer)
            train.step()


def ask_peer(peer):
    peer.sendall(b"?")
    return peer.recv(1)  # MARK foreign


def prepare():
    """What the API process does between requests."""
    total = 0
    for value in range(250_000):
        total = (total * 31 + value * value) % 1_000_003  # MARK prepare
    return total


def serve(run, talk, listen):
    """An engine in a child that has the GPU, and the API process, this one, which has none. `listen` is called in the
    child and returns how to take a request and how to answer it. `talk` sends one, here, and waits for its answer."""
    process = FORK.Process(target=engine, args=(run, listen))
    process.start()
    try:
        while process.is_alive():
            if not run.without:
                prepare()
            talk()
    except (OSError, EOFError):
        # The engine has ended its loop.
        pass
    process.join()


def engine(run, listen):
    take, answer = listen()
    train = Training()
    run.helpers["api"] = os.getppid()
    for _ in run.steps(train.infer):
        take()
        train.infer()
        answer()


def engine_pipe(run):
    here, there = FORK.Pipe()

    def listen():
        here.close()
        return lambda: take_from_pipe(there), lambda: there.send(b"done")

    def talk():
        # Its copy would keep the pipe open when the engine is gone.
        there.close()
        here.send(b"request")
        here.recv()

    serve(run, talk, listen)


def take_from_pipe(pipe):
    return pipe.recv()


def engine_socket(run):
    listener = socket.create_server(("127.0.0.1", 0))
    api = []

    def listen():
        peer = socket.create_connection(listener.getsockname())
        listener.close()
        return lambda: take_from_socket(peer), lambda: peer.sendall(b"!")

    def talk():
        if not api:
            api.append(listener.accept()[0])
        api[0].sendall(b"?")
        if not api[0].recv(1):
            raise EOFError

    serve(run, talk, listen)


def take_from_socket(peer):
    return peer.recv(1)


def engine_zmq(run):
    try:
        import zmq
    except ImportError as why:
        raise Skip(str(why)) from why
    # A context of ZeroMQ has threads, which a fork loses: each process makes its own.
    address = f"ipc://{tempfile.mkdtemp()}/engine"
    api = []

    def listen():
        peer = zmq.Context().socket(zmq.REP)
        peer.bind(address)
        return lambda: take_from_zmq(peer), lambda: peer.send(b"!")

    def talk():
        if not api:
            api.append(zmq.Context().socket(zmq.REQ))
            api[0].setsockopt(zmq.LINGER, 0)
            api[0].connect(address)
        api[0].send(b"?")
        # The engine ends without an answer to the last request.
        while not api[0].poll(200):
            if not multiprocessing.active_children():
                raise EOFError
        api[0].recv()

    serve(run, talk, listen)


def take_from_zmq(peer):
    return peer.recv()


def engine_shm(run):
    """Two counters in shared memory: requests, and answers."""
    memory = mmap.mmap(-1, mmap.PAGESIZE)
    counters = memoryview(memory).cast("Q")

    def listen():
        return lambda: take_from_memory(counters), lambda: count_answer(counters)

    def talk():
        counters[0] += 1
        while counters[1] < counters[0]:
            if not multiprocessing.active_children():
                raise EOFError
            time.sleep(0.0002)

    serve(run, talk, listen)


def take_from_memory(counters):
    while counters[0] == counters[1]:
        time.sleep(0.0005)  # MARK engine_poll


def count_answer(counters):
    counters[1] += 1
