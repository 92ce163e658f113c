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
Program = namedtuple("Program", "name module about says allow needs least outlier_ms")


def fault(name, module, about, *says, needs=(), least="medium", outlier_ms=None):
    return Program(name, module, about, [Say(*say) for say in says], (), needs, least, outlier_ms)


def clean(name, module, about, allow=()):
    return Program(name, module, about, [], allow, (), None, None)


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
    fault("gc_auto", "thread_programs", "automatic collections of a large heap", ("python.gc", "self", "gc_auto")),
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
    fault("cpu_neighbour", "host_programs", "a busy process on the only core of the program", ("cpu.preempted", "helper:busy", None)),
    fault("cpu_quota", "host_programs", "a cgroup quota of half a CPU", ("cpu.throttled", None, None)),
    fault("memory_limit", "host_programs", "a mapped file read again and again under a cgroup memory limit", ("mem.fault", "self", "memory_limit"),
          ("mem.reclaim", "self", "memory_limit"), ("io.block", "self", "memory_limit"), needs=("data",)),
    # Other processes.
    fault("loader_cpu", "process_programs", "a DataLoader worker computes", ("cpu.self", "helper:worker", "loader_cpu")),
    fault("loader_lock", "process_programs", "a DataLoader worker waits for a lock of another process", ("self.sleep", "helper:holder", "loader_lock_holder"),
          ("lock.futex", "helper:holder", "loader_lock")),
    fault("loader_sleep", "process_programs", "a DataLoader worker sleeps", ("self.sleep", "helper:worker", "loader_sleep")),
    fault("loader_disk", "process_programs", "a DataLoader worker reads the disk", ("io.block", "helper:worker", "loader_disk"),
          needs=("data",)),
    fault("child", "process_programs", "subprocess.run of a command every third step", ("proc.wait", "comm:sleep", "child"),
          ("self.sleep", "comm:sleep", "child")),
    fault("http", "process_programs", "waits for answers of a local HTTP server that sleeps", ("self.sleep", "helper:server", "http_server")),
    fault("foreign", "process_programs", "waits on a socket of a process that is not traced", ("net.wait", "peer", "foreign"),
          ("self.sleep", "peer", "foreign_peer"), needs=("peer",)),
    fault("engine_pipe", "process_programs", "a GPU child waits on a Pipe for its API process, which computes", ("cpu.self", "helper:api", "prepare")),
    fault("engine_socket", "process_programs", "the same over a TCP socket", ("cpu.self", "helper:api", "prepare")),
    fault("engine_zmq", "process_programs", "the same over ZeroMQ", ("cpu.self", "helper:api", "prepare")),
    fault("engine_shm", "process_programs", "the same over shared memory, polled", ("cpu.self", "helper:api", "prepare"),
          ("self.sleep", "self", "engine_poll")),
    # The GPU.
    fault("gpu_neighbour", "gpu_programs", "another process keeps the GPU busy", ("driver.contention", "helper:neighbour", None),
          ("gpu.wait", "helper:neighbour", None)),
    fault("copies", "gpu_programs", "134 MB from pageable memory each step", ("copy.pcie", "self", "copies")),
    fault("launch_bound", "gpu_programs", "2,000 tiny kernels a step", ("launch.bound", "self", "launch_bound"), least="low"),
    fault("graph_recapture", "gpu_programs", "a CUDA graph captured anew each step", ("graph.recapture", "self", "graph_recapture")),
    fault("compile_storm", "gpu_programs", "torch.compile for one shape at a time, shapes that change", ("gpu.coldstart", "self", "compile_storm"),
          ("cpu.self", "self", "compile_storm"), ("proc.wait", "self", "compile_storm")),
    fault("empty_cache", "gpu_programs", "torch.cuda.empty_cache() each step", ("gpu.alloc", "self", "empty_cache")),
    fault("leak", "gpu_programs", "a list that keeps tensors", ("gpu.memory", "self", "leak")),
    fault("nccl_sleep", "gpu_programs", "one NCCL rank that sleeps before its all_reduce", ("self.sleep", "self", "nccl_sleep")),
    fault("item_costs", "gpu_programs", ".item() between GPU work and CPU work that could overlap", ("gpu.wait", "self", "item_costs"),
          ("cpu.self", "self", "item_work")),
    # Batches from somewhere else.
    fault("queue_sleep", "queue_programs", "a producer thread sleeps before each item of its queue", ("self.sleep", "thread:producer", "queue_sleep")),
    fault("pool_threads", "queue_programs", "a thread of a pool sleeps, and its result is awaited", ("self.sleep", "self", "pool_threads")),
    fault("pool_processes", "queue_programs", "a pool of processes computes, and is awaited", ("cpu.self", "helper:worker|worker_2", "pool_processes")),
    fault("mp_queue", "queue_programs", "a process fills a multiprocessing.Queue slowly", ("cpu.self", "helper:producer", "mp_queue")),
    fault("loader_pinned", "queue_programs", "two workers compute, and a thread pins memory", ("cpu.self", "helper:worker|worker_2", "loader_pinned")),
    fault("loader_stall", "queue_programs", "one item of a good loader takes 1.5 s", ("self.sleep", "helper:worker", "loader_stall"), outlier_ms=1500),
    fault("event_timeout", "queue_programs", "waits for an event that nobody sets", ("self.sleep", "self", "event_timeout")),
    fault("select_timeout", "queue_programs", "waits for input that does not come", ("self.sleep", "self", "select_timeout")),
    fault("asyncio_sleep", "queue_programs", "awaits asyncio.sleep() in each step", ("self.sleep", "self", "asyncio_sleep")),
    fault("json_log", "queue_programs", "json.dumps of a large record", ("cpu.self", "self", "json_log")),
    fault("openmp", "queue_programs", "augmentation on four threads of torch", ("cpu.self", "self", "openmp")),
    fault("tool_pipe", "queue_programs", "a tool that answers slowly over its pipes", ("proc.wait", "comm:sh|sleep", "tool_pipe"),
          ("self.sleep", "comm:sh|sleep", "tool_pipe"), ("net.wait", "comm:sh|sleep", "tool_pipe"), ("io.file", "comm:sh|sleep", "tool_pipe")),
    fault("file_lock", "queue_programs", "a file's lock that another process holds", ("self.sleep", "helper:locker", "hold_file|file_lock"),
          ("lock.futex", "helper:locker", "hold_file|file_lock"), ("io.file", "helper:locker", "hold_file|file_lock")),
    fault("condition", "queue_programs", "a scheduler thread computes before each turn", ("cpu.self", "thread:scheduler", "condition"),
          ("python.gil", "thread:scheduler", "condition")),
    fault("script", "queue_programs", "a script is run every fifth step, and computes", ("proc.wait", "comm:python3", "script"),
          ("cpu.self", "comm:python3", "script|evaluate")),
    # Tensors.
    fault("to_host", "tensor_programs", "100 MB to pageable memory each step", ("copy.pcie", "self", "to_host")),
    fault("pin_each", "tensor_programs", "a copy into pinned memory in each step", ("cpu.self", "self", "pin_each"), ("gpu.alloc", "self", "pin_each")),
    fault("nonzero", "tensor_programs", "a mask's size synchronises, with CPU work that could overlap", ("gpu.wait", "self", "nonzero"),
          ("cpu.self", "self", "nonzero_work")),
    clean("amp", "tensor_programs", "mixed precision, clipping, a schedule", allow=("launch.bound",)),
    clean("generate", "tensor_programs", "decodes token by token", allow=("launch.bound",)),
    fault("generate_sample", "tensor_programs", "decodes with sampling in Python", ("cpu.self", "self", "generate_sample")),
    clean("accumulate", "tensor_programs", "four passes for each optimizer step", allow=("launch.bound",)),
    clean("synced", "tensor_programs", "large products, synchronised each step"),
    fault("cached_read", "tensor_programs", "reads a cached file", ("io.file", "self", "cached_read"), ("cpu.self", "self", "cached_read"), needs=("data",)),
    fault("small_writes", "tensor_programs", "fsync of a log in each step", ("io.block", "self", "small_writes"), ("io.file", "self", "small_writes"), needs=("data",)),
    fault("fresh_memory", "tensor_programs", "maps and touches new memory", ("mem.fault", "self", "fresh_memory"), ("cpu.self", "self", "fresh_memory")),
    fault("gloo_straggler", "tensor_programs", "the other rank of a Gloo job sleeps", ("self.sleep", "helper:peer", "gloo_straggler"),
          ("rank.straggler", "helper:peer", "gloo_straggler")),
]

# Programs that nothing was tuned for.
HELD_OUT = [
    # The libraries of the field.
    clean("lightning_train", "library_programs", "a Lightning Trainer", allow=("launch.bound",)),
    fault("lightning_metric", "library_programs", "a text metric of torchmetrics in a Lightning callback", ("cpu.self", "self", "lightning_metric")),
    fault("lightning_validation", "library_programs", "Lightning validates every 25 batches, on samples that are computed", ("cpu.self", "self", "lightning_validation")),
    clean("trainer", "library_programs", "transformers' Trainer", allow=("launch.bound",)),
    fault("trainer_collator", "library_programs", "transformers' Trainer whose collator tokenises", ("cpu.self", "self", "trainer_collator")),
    clean("hf_generate", "library_programs", "generate() of transformers", allow=("launch.bound",)),
    fault("hf_processor", "library_programs", "generate() with a logits processor in Python", ("cpu.self", "self", "hf_processor")),
    clean("accelerate_train", "library_programs", "a loop with accelerate and a metric on the GPU", allow=("launch.bound",)),
    clean("compiled", "library_programs", "a compiled model with steady shapes", allow=("launch.bound",)),
    fault("vision_inline", "library_programs", "JPEG files decoded and augmented without workers", ("cpu.self", "self", "vision_inline")),
    clean("vision_workers", "library_programs", "JPEG files decoded by two workers that keep up", allow=("launch.bound",)),
    # Services.
    fault("async_handler", "service_programs", "a health check sleeps on the event loop", ("self.sleep", "self", "ping_upstream")),
    fault("batching", "service_programs", "the main thread plans while the thread with the GPU waits", ("cpu.self", "self", "plan_blocks")),
    fault("detokenizer", "service_programs", "a thread joins tokens behind a bounded queue", ("cpu.self", "thread:detok", "join_pieces"),
          ("python.gil", "thread:detok", "join_pieces")),
    fault("exporter", "service_programs", "a thread renders metrics for a scraper", ("python.gil", "thread:exporter", "render_metrics"),
          ("cpu.self", "thread:exporter", "render_metrics")),
    fault("log_handler", "service_programs", "a thread writes to the disk with a log handler's lock", ("io.block", "thread:audit", "write_audit"),
          ("io.file", "thread:audit", "write_audit"), ("lock.futex", "thread:audit", "log_step|write_audit"), needs=("data",)),
    fault("mp_manager", "service_programs", "an object of a multiprocessing manager computes", ("cpu.self", "helper:manager", "look_up")),
    fault("shm_barrier", "service_programs", "a process unpacks into shared memory, and meets the loop at a barrier", ("cpu.self", "helper:partner", "unpack")),
    fault("param_server", "service_programs", "a parameter server averages in Python", ("cpu.self", "helper:server", "average")),
    fault("stdin_child", "service_programs", "a child in Python computes between its standard streams", ("cpu.self", "helper:cleaner", "clean_words")),
    fault("forkserver_pool", "service_programs", "workers of a fork server sleep between attempts", ("self.sleep", "helper:worker|worker_2", "back_off")),
    clean("graph_server", "service_programs", "replays a CUDA graph for each request of a client that pauses", allow=("self.sleep", "net.wait")),
    # Plain scripts.
    fault("rate_limit", "loop_programs", "a decorator sleeps", ("self.sleep", "self", "rate_limit")),
    fault("zip_checkpoint", "loop_programs", "a compressed checkpoint every 25 steps", ("cpu.self", "self", "zip_checkpoint")),
    fault("ema", "loop_programs", "averages of many small weights, one by one", ("launch.bound", "self", "ema"), ("cpu.self", "self", "ema"), least="low"),
    fault("grad_norms", "loop_programs", "each gradient's norm is read, with CPU work that could overlap", ("gpu.wait", "self", "grad_norms"),
          ("cpu.self", "self", "parse_rows")),
    fault("preview", "loop_programs", "120 MB to the host in each step", ("copy.pcie", "self", "preview"), ("mem.fault", "self", "preview")),
    fault("small_uploads", "loop_programs", "700 tiny pageable copies", ("copy.pcie", "self", "small_uploads"), ("launch.bound", "self", "small_uploads"),
          ("gpu.wait", "self", "small_uploads"), least="low"),
    fault("json_dataset", "loop_programs", "a DataLoader without workers parses", ("cpu.self", "self", "json_dataset")),
    fault("slow_worker", "loop_programs", "one of four DataLoader workers is slow", ("cpu.self", "helper:worker", "slow_worker")),
    fault("shared_reader", "loop_programs", "three DataLoader workers share a lock and sleep with it", ("self.sleep", "helper:worker_0|worker_1|worker_2", "read_store"),
          ("lock.futex", "helper:worker_0|worker_1|worker_2", "store_lock|read_store")),
    clean("loss_prints", "loop_programs", "a wide model, the loss printed every 50 steps"),
    clean("multi_stream", "loop_programs", "large products on two streams"),
    fault("stall_fsync", "loop_programs", "one stall of 1.2 s, fsync", ("io.block", "self", "flush_index"), ("io.file", "self", "flush_index"),
          needs=("data",), outlier_ms=1200),
    fault("stall_child", "loop_programs", "one stall of 0.8 s, a command", ("proc.wait", "comm:sleep", "export_model"), ("self.sleep", "comm:sleep", "export_model"),
          least="low", outlier_ms=800),
    fault("stall_gc", "loop_programs", "one stall of 0.7 s, gc.collect()", ("python.gc", "self", "free_memory"), least="low", outlier_ms=700),
    fault("stall_lock", "loop_programs", "one stall of 1.5 s, a lock that a thread computes with", ("cpu.self", "thread:compactor", "compact"),
          ("lock.futex", "thread:compactor", "want_table|compact"), outlier_ms=1500),
    # The training step itself.
    fault("hook_sleep", "backward_programs", "a hook on a gradient sleeps, in the thread of the backward pass", ("self.sleep", "self", "hook_sleep")),
    fault("backward_python", "backward_programs", "a backward function computes in Python", ("cpu.self", "self", "backward_python")),
    fault("offload", "backward_programs", "activations are kept in pageable host memory", ("copy.pcie", "self", "offload"), ("mem.fault", "self", "offload"),
          ("cpu.self", "self", "offload")),
    fault("cpu_optimizer", "backward_programs", "the optimizer is on the CPU", ("cpu.self", "self", "cpu_optimizer")),
    clean("event_spin", "backward_programs", "asks an event until large products are done"),
    clean("recompute", "backward_programs", "activation checkpointing", allow=("launch.bound",)),
    clean("prefetcher", "backward_programs", "the next batch is copied beside the step", allow=("launch.bound",)),
    fault("snapshot_state", "backward_programs", "weights and a log are deep-copied every third step", ("cpu.self", "self", "snapshot_state"), ("mem.fault", "self", "snapshot_state")),
    fault("evaluate_often", "backward_programs", "a score in Python every 40 steps", ("cpu.self", "self", "evaluate_often")),
    fault("gets_slow", "backward_programs", "an index is rebuilt in each step of the last two thirds", ("cpu.self", "self", "gets_slow")),
    fault("two_faults", "backward_programs", "computes much and sleeps a little", ("cpu.self", "self", "two_faults")),
    fault("fast_tokenizer", "backward_programs", "the Rust tokenizer in the loop", ("cpu.self", "self", "fast_tokenizer")),
    clean("many_losses", "backward_programs", "losses are read every hundred steps", allow=("launch.bound",)),
    fault("layer_prints", "backward_programs", "hooks format what they read from the GPU", ("cpu.self", "self", "layer_prints")),
    # The host beside it.
    fault("sqlite_log", "host_side_programs", "commits to a database", ("io.block", "self", "sqlite_log"), ("io.file", "self", "sqlite_log"), needs=("data",)),
    fault("regex_filter", "host_side_programs", "regular expressions over a log", ("cpu.self", "self", "regex_filter")),
    fault("json_thread", "host_side_programs", "a thread parses JSON in C with the GIL", ("python.gil", "thread:config", "json_thread"), ("cpu.self", "thread:config", "json_thread")),
    fault("process_lock", "host_side_programs", "a lock that another process computes with", ("cpu.self", "helper:owner", "settle"),
          ("lock.futex", "helper:owner", "want_process_lock|settle")),
    fault("unix_engine", "host_side_programs", "waits on a Unix socket for a process that sleeps", ("self.sleep", "helper:scheduler", "wait_for_slot")),
    fault("shell_out", "host_side_programs", "os.system every tenth step", ("proc.wait", "comm:sh|sleep", "shell_out"), ("self.sleep", "comm:sh|sleep", "shell_out")),
    fault("pool_reads", "host_side_programs", "threads of a pool read the disk", ("io.block", "self", "pool_reads"), needs=("data",)),
    fault("silent_peer", "host_side_programs", "a service that does not answer in time", ("net.wait", None, "silent_peer"), ("self.sleep", None, "silent_peer")),
    fault("slots", "host_side_programs", "a semaphore that a thread holds while it syncs a file", ("io.block", "thread:spiller", "spill_pages"),
          ("io.file", "thread:spiller", "spill_pages"), ("lock.futex", "thread:spiller", "want_slot|spill_pages"), ("cpu.self", "thread:spiller", "fill_page"), needs=("data",)),
    fault("epoch_workers", "host_side_programs", "DataLoader workers are started for each short epoch", ("cpu.self", None, "epoch_workers"), ("proc.wait", None, "epoch_workers"),
          ("mem.fault", None, "epoch_workers"), ("lock.futex", None, "epoch_workers"), ("io.file", None, "epoch_workers"), least="low"),
    fault("shared_core", "host_side_programs", "a process of its own on the same CPU", ("cpu.preempted", "helper:indexer", None)),
    fault("result_queue", "host_side_programs", "a process computes before it takes the next result", ("cpu.self", "helper:sink", "result_queue")),
    clean("ordinary_script", "host_side_programs", "prints its loss", allow=("launch.bound",)),
    fault("tool_each", "host_side_programs", "a Python tool for every eighth step", ("proc.wait", "comm:python3", "tool_each"), ("cpu.self", "comm:python3", "tool_each|evaluate")),
]
PROGRAMS += HELD_OUT

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
