"""Programs about the GPU: good ones, and those whose fault is how they use it."""

import multiprocessing
import os
import tempfile
import time

import torch
import torch.distributed as dist

from loop import Skip, Training

FORK = multiprocessing.get_context("fork")


def train(run):
    train = Training()
    for _ in run.steps(train.step):
        train.step()


def infer(run):
    train = Training()
    for _ in run.steps(train.infer):
        train.infer()


class Products:
    """Large matrix products, about 1.5 ms each on an H200."""

    def __init__(self, count, width=8192):
        self.count = count
        self.left, self.right = (torch.randn(width, width, device="cuda", dtype=torch.bfloat16) for _ in range(2))
        self.out = torch.empty_like(self.left)

    def step(self):
        for _ in range(self.count):
            torch.matmul(self.left, self.right, out=self.out)


def gpu_bound(run):
    products = Products(8)
    for _ in run.steps(products.step):
        products.step()


def capture(graph, train, stream, pool):
    """By hand: torch.cuda.graph() collects garbage first, which is another fault."""
    with torch.cuda.stream(stream):
        graph.capture_begin(pool=pool)  # MARK graph_recapture
        train.infer()  # MARK graph_recapture
        graph.capture_end()  # MARK graph_recapture


class Captures:
    """One stream and one pool of memory for all captures. The first graph stays, or the pool would go with it."""

    def __init__(self):
        self.train = Training()
        self.stream, self.pool = torch.cuda.Stream(), torch.cuda.graph_pool_handle()
        # Libraries set themselves up at their first call on a stream, which a capture does not allow.
        with torch.cuda.stream(self.stream):
            self.train.infer()
        torch.cuda.synchronize()
        self.first = self.new()

    def new(self):
        graph = torch.cuda.CUDAGraph()
        capture(graph, self.train, self.stream, self.pool)
        return graph


def graphs(run):
    captures = Captures()
    for _ in run.steps(captures.first.replay):
        captures.first.replay()


def graph_recapture(run):
    captures = Captures()
    graph = captures.first
    for _ in run.steps(graph.replay):
        if not run.without:
            # A graph that still runs may not be freed.
            torch.cuda.synchronize()
            graph = captures.new()
        graph.replay()


def item_free(run):
    train = Training()
    for _ in run.steps(train.step):
        train.step()
        train.loss.item()


def item_costs(run):
    """8 ms of the GPU and 6 ms of Python, one after the other; without the wait, side by side."""
    products = Products(6)
    for _ in run.steps(products.step):
        products.step()
        if not run.without:
            read_loss(products.out)
        update_metrics()


def read_loss(out):
    return out[0, 0].item()  # MARK item_costs


def update_metrics():
    total = 0
    for value in range(90_000):
        total = (total * 31 + value * value) % 1_000_003  # MARK item_work
    return total


def copies(run):
    train = Training()
    host = torch.randn(134_000_000 // 4)
    for _ in run.steps(train.step):
        if not run.without:
            upload(host)
        train.step()


def upload(host):
    return host.to("cuda")  # MARK copies


def launch_bound(run):
    tiny = torch.zeros(64, device="cuda")
    for _ in run.steps(lambda: add_many(tiny)):
        add_many(tiny)


def add_many(tiny):
    for _ in range(2000):
        tiny.add_(1)  # MARK launch_bound


def empty_cache(run):
    train = Training()
    for _ in run.steps(train.step):
        train.step()
        if not run.without:
            free_all()


def free_all():
    torch.cuda.empty_cache()  # MARK empty_cache


def leak(run):
    train = Training()
    history = []
    for _ in run.steps(train.step):
        train.step()
        remember(history)


def remember(history):
    history.append(torch.empty(8 << 20, dtype=torch.uint8, device="cuda"))  # MARK leak


def compile_storm(run):
    """In this process, and past the compiler's caches, so that each new shape is compiled."""
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = tempfile.mkdtemp()
    train = Training()
    train.step()
    try:
        import torch._dynamo.config
        import torch._inductor.config
        torch._inductor.config.compile_threads = 1
        torch._inductor.config.force_disable_caches = True
        # By default the compiler gives up after eight shapes.
        torch._dynamo.config.recompile_limit = torch._dynamo.config.accumulated_recompile_limit = 10_000
        fused = torch.compile(lambda x: (x.sin() * x + x.cos()).softmax(dim=-1), dynamic=False)
        fused(torch.ones(64, 64, device="cuda"))
    except Exception as why:
        raise Skip(f"torch.compile does not work here: {why!r:.200}") from why
    for number in run.steps(train.step):
        width = 64 if run.without else 65 + number
        score(fused, torch.ones(64, width, device="cuda"))
        train.step()


def score(fused, batch):
    return fused(batch)  # MARK compile_storm


def nccl_sleep(run):
    if not dist.is_available() or not dist.is_nccl_available():
        raise Skip("PyTorch has no NCCL here")
    store = os.path.join(tempfile.mkdtemp(), "store")
    dist.init_process_group("nccl", init_method=f"file://{store}", rank=0, world_size=1, device_id=torch.device("cuda:0"))
    train = Training()
    gradients = torch.zeros(4 << 20, device="cuda")

    def reduce():
        train.step()
        dist.all_reduce(gradients)

    for _ in run.steps(reduce):
        if not run.without:
            gather_batch()
        reduce()
    dist.destroy_process_group()


def gather_batch():
    time.sleep(0.012)  # MARK nccl_sleep


def gpu_neighbour(run):
    """The neighbour is forked before CUDA starts here, and waited for."""
    if not run.without:
        here, there = FORK.Pipe()
        neighbour = FORK.Process(target=keep_busy, args=(there,), daemon=True)
        neighbour.start()
        run.helpers["neighbour"] = neighbour.pid
        run.children.append(neighbour)
        here.recv()
    products = Products(6)
    for _ in run.steps(products.step):
        products.step()
        torch.cuda.synchronize()


def keep_busy(ready):
    products = Products(10)
    products.step()
    torch.cuda.synchronize()
    ready.send(True)
    while True:
        products.step()
        torch.cuda.synchronize()
