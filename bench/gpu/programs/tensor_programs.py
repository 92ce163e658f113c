"""Programs whose fault, or whose health, is in how they use tensors: copies, synchronisation, allocation, decoding loops."""

import mmap
import os
import time

import torch
import torch.distributed as dist

from loop import Skip, Training, WIDTH


def to_host(run):
    """A large tensor comes back to pageable memory in each step."""
    train = Training()
    large = torch.randn(100_000_000 // 4, device="cuda")
    for _ in run.steps(train.step):
        train.step()
        if not run.without:
            large.cpu()  # MARK to_host


def pin_each(run):
    """Copies into pinned memory in each step."""
    train = Training()
    host = torch.randn(32_000_000 // 4)
    for _ in run.steps(train.step):
        if not run.without:
            stage(host)
        train.step()


def stage(host):
    """PyTorch keeps pinned memory for the next time: what costs is the copy on the CPU."""
    return host.pin_memory()  # MARK pin_each


def nonzero(run):
    """Masks whose size the host must know: a synchronisation each, where the GPU has work."""
    large = torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16)
    out = torch.empty_like(large)

    def step():
        for _ in range(4):
            torch.matmul(large, large, out=out)

    for _ in run.steps(step):
        step()
        if not run.without:
            out[0][out[0] > 0]  # MARK nonzero
        busy_python(60_000)


def busy_python(count):
    total = 0
    for value in range(count):
        total = (total * 31 + value * value) % 1_000_003  # MARK nonzero_work
    return total


def amp(run):
    """Mixed precision with a scaler, gradient clipping and a schedule: nothing wrong."""
    train = Training()
    scaler = torch.amp.GradScaler("cuda")
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(train.optimizer, 1000)

    def step():
        train.optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = train.model(train.inputs).square().mean()
        scaler.scale(loss).backward()
        scaler.unscale_(train.optimizer)
        torch.nn.utils.clip_grad_norm_(train.model.parameters(), 1.0)
        scaler.step(train.optimizer)
        scaler.update()
        schedule.step()

    for _ in run.steps(step):
        step()


def generate(run):
    """Decodes token by token, and looks at each for the end: launch bound, nothing else."""
    train = Training()
    head = torch.nn.Linear(WIDTH, 1000).cuda()

    @torch.no_grad()
    def token():
        return int(head(train.model(train.inputs[:1, :8]))[0, -1].argmax())

    for _ in run.steps(token):
        token()


def generate_sample(run):
    """The same with sampling on the host, in Python, which is slow."""
    train = Training()
    head = torch.nn.Linear(WIDTH, 20_000).cuda()

    @torch.no_grad()
    def token():
        return head(train.model(train.inputs[:1, :8]))[0, -1].cpu()

    for _ in run.steps(token):
        logits = token()
        if not run.without:
            choose(logits.tolist())


def choose(logits):
    """Top-p by hand."""
    order = sorted(range(len(logits)), key=lambda at: -logits[at])  # MARK generate_sample
    total = 0.0
    for at in order:
        total += max(logits[at], 0.0)  # MARK generate_sample
    return order[0], total


def accumulate(run):
    """Four small passes for each optimizer step: nothing wrong."""
    train = Training()

    def step():
        train.optimizer.zero_grad(set_to_none=True)
        for _ in range(4):
            train.model(train.inputs).square().mean().backward()
        train.optimizer.step()

    for _ in run.steps(step):
        step()


def synced(run):
    """Large products, and a synchronisation after each step: the GPU is busy, nothing is wrong."""
    large = torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16)
    out = torch.empty_like(large)

    def step():
        for _ in range(8):
            torch.matmul(large, large, out=out)
        torch.cuda.synchronize()

    for _ in run.steps(step):
        step()


def cached_read(run):
    """Reads a large file that is in the page cache, in each step."""
    train = Training()
    for _ in run.steps(train.step):
        if not run.without:
            read_all(run.data)
        train.step()


def read_all(path):
    with open(path, "rb") as file:
        return len(file.read(96 << 20))  # MARK cached_read


def small_writes(run):
    """A line of a log is written and forced to the disk in each step."""
    train = Training()
    file = os.open(run.data + ".log", os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    for _ in run.steps(train.step):
        if not run.without:
            log_line(file)
        train.step()
    os.close(file)
    os.unlink(run.data + ".log")


def log_line(file):
    for _ in range(6):
        os.write(file, b"a line\n" * 600)
        os.fsync(file)  # MARK small_writes


def fresh_memory(run):
    """Maps and touches new memory in each step."""
    train = Training()
    for _ in run.steps(train.step):
        if not run.without:
            touch()
        train.step()


def touch():
    pages = mmap.mmap(-1, 48 << 20)
    pages.madvise(mmap.MADV_NOHUGEPAGE)
    pages.write(bytes(48 << 20))  # MARK fresh_memory
    pages.close()


def gloo_straggler(run):
    """Two ranks that reduce over Gloo; the other one is late."""
    path = os.path.join(os.environ.get("TMPDIR", "/tmp"), f"gloo-{os.getpid()}")
    child = os.fork()
    rank = 0 if child else 1
    if not dist.is_gloo_available():
        raise Skip("PyTorch has no Gloo here")
    dist.init_process_group("gloo", init_method=f"file://{path}", rank=rank, world_size=2)
    train, gradients = Training(), torch.zeros(1 << 16)
    stop = torch.zeros(1)
    if rank == 1:
        while stop.item() == 0:
            late(run)
            train.step()
            dist.all_reduce(gradients)
            dist.broadcast(stop, 0)
        os._exit(0)
    run.helpers["peer"] = child

    def step():
        train.step()
        dist.all_reduce(gradients)
        dist.broadcast(stop, 0)

    for _ in run.steps(step):
        step()
    stop.fill_(1)
    step()
    os.waitpid(child, 0)


def late(run):
    if not run.without:
        time.sleep(0.025)  # MARK gloo_straggler
