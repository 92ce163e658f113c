"""The programs with a known truth: what is wrong with each, and what must be said of it. Needs no PyTorch."""

import pathlib
from collections import namedtuple

HERE = pathlib.Path(__file__).resolve().parent

# One way to be right. `culprit` is `self` (the process of the loop), `helper:NAME` or `thread:NAME` (as the program
# reports them), `comm:NAME`, `peer` (the foreign process, by pid or by port), or None where there is none to name.
# `mark` names the lines that end with `# MARK mark`, several with `|` between, or is None where no line is to be named.
Say = namedtuple("Say", "cause culprit mark")

# `says` is empty for a clean program; else the best answer first, then those that SCENARIOS.md leaves open.
# `allow`: classes a clean program may be told of above low, because they are true of it.
# `twin`: the program, or `own` for this one with `--without`, whose mean step is what is left when the fault is gone.
# `needs`: `data` (a big file), `peer` (a process that runs before the trace). `least`: the least severity that is right.
Program = namedtuple("Program", "name module about says allow twin needs least outlier_ms")


def fault(name, module, about, *says, twin="train", needs=(), least="medium", outlier_ms=None):
    return Program(name, module, about, [Say(*say) for say in says], (), twin, needs, least, outlier_ms)


def clean(name, module, about, allow=()):
    return Program(name, module, about, [], allow, None, (), None, None)


PROGRAMS = [
    # Nothing wrong. The small training step is launch-heavy: to say so is true.
    clean("train", "gpu_programs", "a plain training loop", allow=("launch.bound",)),
    clean("train_loader", "process_programs", "training with a DataLoader whose worker is fast", allow=("launch.bound",)),
    clean("infer", "gpu_programs", "inference with no_grad", allow=("launch.bound",)),
    clean("gpu_bound", "gpu_programs", "large matrix products, the GPU always busy"),
    clean("graphs", "gpu_programs", "replays of one CUDA graph"),
    clean("item_free", "gpu_programs", ".item() in a launch-bound loop, where it costs nothing", allow=("launch.bound",)),
    clean("slow_start", "thread_programs", "3 s of computing before the loop, then a good loop", allow=("launch.bound",)),
    # The loop's own thread.
    fault("sleep", "thread_programs", "the loop sleeps in fetch()", ("self.sleep", "self", "fetch")),
    fault("poll", "thread_programs", "the loop polls with short sleeps", ("self.sleep", "self", "poll")),
    fault("compute", "thread_programs", "a Python loop computes between steps", ("cpu.self", "self", "compute")),
    fault("tokenizer", "thread_programs", "string work over several functions, one line hottest", ("cpu.self", "self", "tokenizer")),
    fault("augment_torch", "thread_programs", "augmentation in torch's CPU code", ("cpu.self", "self", "augment_torch")),
    fault("augment_numpy", "thread_programs", "augmentation in numpy", ("cpu.self", "self", "augment_numpy")),
    fault("gc_collect", "thread_programs", "gc.collect() over a large heap", ("python.gc", "self", "gc_collect")),
    fault("gc_auto", "thread_programs", "automatic collections of a large heap", ("python.gc", "self", "gc_auto"), twin="own"),
    fault("asyncio_blocked", "thread_programs", "a callback computes while the engine's coroutine awaits", ("cpu.self", "self", "callback")),
    fault("stall_long", "thread_programs", "one stall of 2 s in refresh_index()", ("cpu.self", "self", "refresh_index"), outlier_ms=2000),
    fault("stall_short", "thread_programs", "one stall of 0.3 s in reload_config()", ("self.sleep", "self", "reload_config"), least="low", outlier_ms=300),
    # Threads beside it.
    fault("gil", "thread_programs", "a Python thread computes in bursts beside the loop", ("python.gil", "thread:metrics", "metrics"),
          ("cpu.self", "thread:metrics", "metrics")),
    fault("lock_sleep", "thread_programs", "a logger thread sleeps with the lock", ("self.sleep", "thread:logger", "hold_asleep"),
          ("lock.futex", "thread:logger", "want_lock|hold_asleep")),
    fault("lock_compute", "thread_programs", "a thread computes with the lock", ("cpu.self", "thread:indexer", "hold_busy"),
          ("lock.futex", "thread:indexer", "want_lock|hold_busy")),
    # Files.
    fault("disk_read", "host_programs", "O_DIRECT reads of a big file in the loop", ("io.block", "self", "disk_read"), needs=("data",)),
    fault("checkpoint", "host_programs", "torch.save and fsync every 20 steps", ("io.block", "self", "checkpoint"),
          ("io.file", "self", "checkpoint"), needs=("data",)),
    fault("log_pipe", "host_programs", "a log into a full pipe with a slow reader", ("io.file", "helper:reader", "log_pipe"),
          ("io.block", "helper:reader", "log_pipe"), ("self.sleep", "helper:reader", "slow_reader")),
    # The host.
    fault("cpu_neighbour", "host_programs", "a busy process on the only core of the program", ("cpu.preempted", "helper:busy", None), twin="own"),
    fault("cpu_quota", "host_programs", "a cgroup quota of half a CPU", ("cpu.throttled", None, None)),
    fault("memory_limit", "host_programs", "a mapped file read again and again under a cgroup memory limit", ("mem.fault", "self", "memory_limit"),
          ("mem.reclaim", "self", "memory_limit"), ("io.block", "self", "memory_limit"), needs=("data",)),
    # Other processes.
    fault("loader_cpu", "process_programs", "a DataLoader worker computes", ("cpu.self", "helper:worker", "loader_cpu"), twin="train_loader"),
    fault("loader_sleep", "process_programs", "a DataLoader worker sleeps", ("self.sleep", "helper:worker", "loader_sleep"), twin="train_loader"),
    fault("loader_disk", "process_programs", "a DataLoader worker reads the disk", ("io.block", "helper:worker", "loader_disk"), twin="train_loader",
          needs=("data",)),
    fault("child", "process_programs", "subprocess.run of a command every third step", ("proc.wait", "comm:sleep", "child"),
          ("self.sleep", "comm:sleep", "child")),
    fault("http", "process_programs", "waits for answers of a local HTTP server that sleeps", ("self.sleep", "helper:server", "http_server")),
    fault("foreign", "process_programs", "waits on a socket of a process that is not traced", ("net.wait", "peer", "foreign"),
          ("self.sleep", "peer", "foreign_peer"), needs=("peer",)),
    fault("engine_pipe", "process_programs", "a GPU child waits on a Pipe for its API process, which computes", ("cpu.self", "helper:api", "prepare"),
          twin="own"),
    fault("engine_socket", "process_programs", "the same over a TCP socket", ("cpu.self", "helper:api", "prepare"), twin="own"),
    fault("engine_zmq", "process_programs", "the same over ZeroMQ", ("cpu.self", "helper:api", "prepare"), twin="own"),
    fault("engine_shm", "process_programs", "the same over shared memory, polled", ("cpu.self", "helper:api", "prepare"),
          ("self.sleep", "self", "engine_poll"), twin="own"),
    # The GPU.
    fault("gpu_neighbour", "gpu_programs", "another process keeps the GPU busy", ("driver.contention", "helper:neighbour", None),
          ("gpu.wait", "helper:neighbour", None), twin="own"),
    fault("copies", "gpu_programs", "134 MB from pageable memory each step", ("copy.pcie", "self", "copies")),
    fault("launch_bound", "gpu_programs", "2,000 tiny kernels a step", ("launch.bound", "self", "launch_bound"), twin=None, least="low"),
    fault("graph_recapture", "gpu_programs", "a CUDA graph captured anew each step", ("graph.recapture", "self", "graph_recapture"), twin="own"),
    fault("compile_storm", "gpu_programs", "torch.compile for one shape at a time, shapes that change", ("gpu.coldstart", "self", "compile_storm"),
          ("cpu.self", "self", "compile_storm"), ("proc.wait", "self", "compile_storm"), twin="own"),
    fault("empty_cache", "gpu_programs", "torch.cuda.empty_cache() each step", ("gpu.alloc", "self", "empty_cache")),
    fault("leak", "gpu_programs", "a list that keeps tensors", ("gpu.memory", "self", "leak"), twin=None),
    fault("nccl_sleep", "gpu_programs", "one NCCL rank that sleeps before its all_reduce", ("self.sleep", "self", "nccl_sleep"), twin="own"),
    fault("item_costs", "gpu_programs", ".item() between GPU work and CPU work that could overlap", ("gpu.wait", "self", "item_costs"),
          ("cpu.self", "self", "item_work"), twin="own"),
]

BY_NAME = {program.name: program for program in PROGRAMS}


def lines_of(marks):
    """Every `(file, line)` with one of the marks."""
    ends = tuple(f"# MARK {mark}" for mark in marks.split("|"))
    found = [(path.name, number)
             for path in sorted(HERE.glob("*.py"))
             for number, text in enumerate(path.read_text().splitlines(), 1)
             if text.endswith(ends)]
    if not found:
        raise LookupError(f"no program has a line marked {marks}")
    return found
