"""Programs whose fault, or whose health, is in the training step itself: hooks, backward functions, offloading, optimizers,
evaluation, and loops that change."""

import copy
import time

import torch
from torch.utils.checkpoint import checkpoint

from loop import LAYERS, Training, WIDTH

CORPUS = [f"the quick brown fox number {number} jumps over lazy dogs, {number % 13} of them; tokens-{number * 7919} and so on " * 12 for number in range(64)]


def hook_sleep(run):
    """A hook on a gradient sleeps: in the thread that runs the backward pass."""
    train = Training()
    parameter = next(train.model.parameters())
    parameter.register_hook(lambda grad: throttle(run, grad))
    for _ in run.steps(train.step):
        train.step()


def throttle(run, grad):
    if not run.without:
        time.sleep(0.012)  # MARK hook_sleep
    return grad


class Quantise(torch.autograd.Function):
    """A backward function in Python, which is slow."""

    @staticmethod
    def forward(ctx, x):
        return x

    @staticmethod
    def backward(ctx, grad):
        build_codebook(60_000)
        return grad


def build_codebook(size):
    codes = 0
    for value in range(size):
        codes = (codes * 33 + value) % 65_521  # MARK backward_python
    return codes


def backward_python(run):
    """A custom backward function computes in Python."""
    train = Training()
    inputs = train.inputs.clone().requires_grad_()

    def step():
        train.optimizer.zero_grad(set_to_none=True)
        passed = inputs if run.without else Quantise.apply(inputs)
        train.model(passed).square().mean().backward()
        train.optimizer.step()

    for _ in run.steps(step):
        step()


def offload(run):
    """Activations are kept in pageable host memory between forward and backward."""
    train = Training()
    inputs = torch.randn(32, 128, WIDTH, device="cuda")

    def step():
        train.optimizer.zero_grad(set_to_none=True)
        if run.without:
            loss = train.model(inputs).square().mean()
        else:
            with torch.autograd.graph.save_on_cpu(pin_memory=False):
                loss = train.model(inputs).square().mean()  # MARK offload
        loss.backward()  # MARK offload
        train.optimizer.step()

    for _ in run.steps(step):
        step()


def cpu_optimizer(run):
    """The optimizer's state and step are on the CPU."""
    train = Training()
    masters = [parameter.detach().cpu().clone() for parameter in train.model.parameters()]
    optimizer = torch.optim.AdamW(masters, lr=1e-4, foreach=False)

    def step():
        train.model.zero_grad(set_to_none=True)
        train.model(train.inputs).square().mean().backward()
        if run.without:
            train.optimizer.step()
            return
        for master, parameter in zip(masters, train.model.parameters()):
            master.grad = parameter.grad.cpu()
        optimizer.step()  # MARK cpu_optimizer
        for master, parameter in zip(masters, train.model.parameters()):
            parameter.data.copy_(master)

    for _ in run.steps(step):
        step()


def event_spin(run):
    """Waits for large products by asking an event again and again: the GPU is the limit, nothing is wrong."""
    large = torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16)
    out, done = torch.empty_like(large), torch.cuda.Event()

    def step():
        for _ in range(8):
            torch.matmul(large, large, out=out)
        done.record()
        while not done.query():
            pass

    for _ in run.steps(step):
        step()


def recompute(run):
    """Activation checkpointing: nothing wrong."""
    train = Training()

    def step():
        train.optimizer.zero_grad(set_to_none=True)
        x = train.inputs
        for block in train.model:
            x = checkpoint(block, x, use_reentrant=False)
        x.square().mean().backward()
        train.optimizer.step()

    for _ in run.steps(step):
        step()


def prefetcher(run):
    """The next batch is copied from pinned memory on a stream of its own: nothing wrong."""
    train = Training()
    host = torch.randn(train.inputs.shape).pin_memory()
    side = torch.cuda.Stream()

    def step():
        with torch.cuda.stream(side):
            following = host.to("cuda", non_blocking=True)
        train.step()
        torch.cuda.current_stream().wait_stream(side)
        train.inputs = following

    for _ in run.steps(step):
        step()


def snapshot_state(run):
    """A copy of all weights on the host is deep-copied in each third step."""
    train = Training()
    state = {name: value.cpu() for name, value in train.model.state_dict().items()}
    history = {"weights": state, "log": [{"step": number, "values": [number, str(number)]} for number in range(3_000)]}
    for step in run.steps(train.step):
        if step % 3 == 0 and not run.without:
            keep_best(history)
        train.step()


def keep_best(history):
    return copy.deepcopy(history)  # MARK snapshot_state


def evaluate_often(run):
    """Every 40 steps a score is computed in Python over a table, for a fifth of a second."""
    train = Training()
    table = [(number * 7919) % 10_007 for number in range(200_000)]
    for step in run.steps(train.step):
        if step % 40 == 39 and not run.without:
            rank_all(table)
        train.step()


def rank_all(table):
    best = 0
    for _ in range(12):
        for value in table:
            best = max(best, value % 4_099)  # MARK evaluate_often
    return best


def gets_slow(run):
    """Good at first; then each step rebuilds an index that grows."""
    train = Training()
    index, began = {}, None
    for step in run.steps(train.step):
        began = began or time.monotonic()
        if time.monotonic() > began + run.seconds / 3 and not run.without:
            rebuild(index, step)
        train.step()


def rebuild(index, step):
    for number in range(90_000):
        index[number % 5_000] = number ^ step  # MARK gets_slow


def two_faults(run):
    """Sleeps 5 ms and computes 20 ms in each step: computing is the larger."""
    train = Training()
    for _ in run.steps(train.step):
        if not run.without:
            time.sleep(0.005)
            weigh(range(150_000))
        train.step()


def weigh(values):
    total = 0
    for value in values:
        total = (total ^ value) * 3 % 1_000_033  # MARK two_faults
    return total


def fast_tokenizer(run):
    """The Rust tokenizer of Hugging Face, called in the loop."""
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE(unk_token="?"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.train_from_iterator(CORPUS[:4], trainers.BpeTrainer(vocab_size=500, special_tokens=["?"], show_progress=False))
    train = Training()
    for step in run.steps(train.step):
        if not run.without:
            encode_batch(tokenizer, step)
        train.step()


def encode_batch(tokenizer, step):
    return tokenizer.encode_batch([f"{step} {text}{step}-{number}" for number, text in enumerate(CORPUS * 4)])  # MARK fast_tokenizer


def many_losses(run):
    """Loss values are kept as tensors and read every hundred steps: nothing wrong."""
    train, losses = Training(), []
    for step in run.steps(train.step):
        train.step()
        losses.append(train.loss.detach())
        if step % 100 == 99:
            torch.stack(losses).mean().item()
            losses.clear()


def layer_prints(run):
    """A forward hook on each layer formats its statistics, read from the GPU one by one."""
    train = Training()

    def describe(module, inputs, output):
        if not run.without:
            format_statistics(output)

    for layer in list(train.model)[:LAYERS]:
        layer.register_forward_hook(describe)
    for _ in run.steps(train.step):
        train.step()


def format_statistics(output):
    values = output.detach()[0].flatten()[:6_000].cpu().tolist()
    return " ".join(f"{value:+.6e}" for value in values)  # MARK layer_prints
