//! What each class of cause is seen by, and what to do about it in general. What to do in a trace, with its processes and CPUs, is what
//! findings say.

use crate::Cause;

impl Cause {
    /// The measurement behind it.
    pub fn seen_by(self) -> &'static str {
        match self {
            Cause::CpuSelf => {
                "time on the CPU in a call that does not wait for the GPU; between calls, samples of the running code"
            }
            Cause::SelfSleep => {
                "the thread is off the CPU in `nanosleep`, `clock_nanosleep` or a poll with a timeout and no peer"
            }
            Cause::CpuPreempted => {
                "the scheduler has the thread runnable and runs another task on its CPU; `by` names that task"
            }
            Cause::CpuThrottled => {
                "the thread is runnable while the cgroup's run queue is stopped because `cpu.max` is used up"
            }
            Cause::CpuInterrupt => "interrupt and softirq handlers run on the thread's CPU during the call",
            Cause::NumaRemote => "the thread runs, or its memory lies, on another NUMA node than its GPU",
            Cause::LockFutex => {
                "the thread is blocked in `futex`; the waker is the thread that released the lock"
            }
            Cause::PythonGil => {
                "the thread is blocked on the interpreter's lock; the holder is read from the interpreter"
            }
            Cause::MemFault => "the thread handles a page fault, from the exception until the page is there",
            Cause::MemReclaim => {
                "the thread is in direct reclaim or compaction: its allocation has to free memory first"
            }
            Cause::MemOom => {
                "the kernel's out-of-memory killer ended a process, or its cgroup is at its limit"
            }
            Cause::IoBlock => {
                "the thread is in uninterruptible sleep for block I/O; requests are timed at the device"
            }
            Cause::IoFile => "the thread is blocked in a read or write of a file, pipe or character device",
            Cause::NetTcp => "the kernel retransmits segments of the connection the thread waits for",
            Cause::NetWait => {
                "the thread is blocked in a socket call or poll; the waker or the peer's address is recorded"
            }
            Cause::RdmaFabric => {
                "error and congestion counters of an RDMA port rise, or the verbs library reports an event"
            }
            Cause::GpuWait => {
                "the thread is in a synchronising call while its stream has queued work; by default the driver spins, so it is on the CPU"
            }
            Cause::GpuAlloc => {
                "calls that allocate or free device memory wait for the GPU or take much of a step"
            }
            Cause::GpuColdstart => {
                "context creation, module load, JIT compilation and first launches, which happen once"
            }
            Cause::GpuThrottle => {
                "NVML reports a clock limit (power, temperature) and lower clocks than before"
            }
            Cause::GpuError => "an Xid in the kernel log, or library calls that return an error",
            Cause::GpuMemory => "an allocation fails, or live device memory of a call site grows without end",
            Cause::CopyPcie => {
                "copies between host and device take the time; bytes, direction and rate are recorded"
            }
            Cause::LaunchBound => {
                "the critical path consists of launches and the interpreter between them, while the GPU is idle"
            }
            Cause::GraphRecapture => "CUDA graphs are captured and instantiated again in the loop",
            Cause::DriverContention => {
                "the call waits in the driver while another process is in an ioctl of the same device"
            }
            Cause::RankStraggler => {
                "the rank arrives last at its collectives and spends more of its own time between them than its peers"
            }
            Cause::RankHang => {
                "a collective that some ranks have entered and others have not, or have entered with another operation or count"
            }
            Cause::PythonGc => "samples of the running code are inside the interpreter's garbage collector",
            Cause::ProcWait => {
                "the thread is blocked in `wait4` or `waitid`; the child's command is recorded"
            }
            Cause::Unknown => {
                "what is left when all of the above is subtracted; it is shown, never spread over the others"
            }
        }
    }

    /// What usually helps.
    pub fn advice(self) -> &'static str {
        match self {
            Cause::CpuSelf => {
                "move the work to other processes ahead of time (`DataLoader(num_workers=...)`), vectorise it, or do it on the GPU"
            }
            Cause::SelfSleep => {
                "wait for the event instead of sleeping, or do the work that is slept for in another thread"
            }
            Cause::CpuPreempted => {
                "give the process CPUs of its own (cpuset, `taskset`), or move or renice the task that `by` names"
            }
            Cause::CpuThrottled => "raise `cpu.max`, or the CPU limit of the pod or job",
            Cause::CpuInterrupt => {
                "move the device's interrupts to other CPUs (`/proc/irq/N/smp_affinity_list`)"
            }
            Cause::NumaRemote => "bind the process to the GPU's node: `numactl --cpunodebind N --membind N`",
            Cause::LockFutex => {
                "look at what the holder does while it holds the lock; the finding follows it"
            }
            Cause::PythonGil => "move the computing thread to a process, or to code that releases the lock",
            Cause::MemFault => {
                "touch memory before the loop and reuse buffers; raise the memory limit where pages come back from swap"
            }
            Cause::MemReclaim => "raise the memory limit, or use less: fewer loader workers, less prefetch",
            Cause::MemOom => "raise the memory limit, or use less",
            Cause::IoBlock => {
                "read ahead in other processes, keep data on a local disk or in memory, look for an `io.max` limit"
            }
            Cause::IoFile => "read ahead, write in another thread; look at who reads the other end of a pipe",
            Cause::NetTcp => {
                "look for drops and errors on both ends (`ethtool -S`), MTU, cable and switch port"
            }
            Cause::NetWait => "look at the peer: it answers late; a trace of its host says why",
            Cause::RdmaFabric => "look at the port, its cable and its switch; `ibdiagnet`, `rdma statistic`",
            Cause::GpuWait => {
                "where the GPU is the limit, make kernels faster; else leave out synchronisations (`.item()`, `.cpu()`, prints)"
            }
            Cause::GpuAlloc => {
                "allocate once and reuse; use `cudaMallocAsync` or a caching allocator; no `empty_cache()` in the loop"
            }
            Cause::GpuColdstart => {
                "warm up before serving, keep compiled code (`CUDA_CACHE_PATH`), load modules at the start"
            }
            Cause::GpuThrottle => "look at power limit and cooling: `nvidia-smi -q -d PERFORMANCE`",
            Cause::GpuError => "look up the Xid in NVIDIA's list; drain the node if it names the hardware",
            Cause::GpuMemory => "free what the named call sites hold; smaller batches",
            Cause::CopyPcie => "pin host memory and copy with `non_blocking=True`; copy less",
            Cause::LaunchBound => "CUDA graphs, `torch.compile`, fused kernels or larger batches",
            Cause::GraphRecapture => "pad inputs to a few fixed shapes, or update the graph in place",
            Cause::DriverContention => "poll the GPU less often from the process that `by` names",
            Cause::RankStraggler => "look at that rank's own cause: uneven batches, a slow disk, a busy CPU",
            Cause::RankHang => {
                "look at the stack of the rank that is missing; all ranks must call the same collectives"
            }
            Cause::PythonGc => {
                "`gc.freeze()` after loading, `gc.disable()` with a collection every N steps, fewer Python objects"
            }
            Cause::ProcWait => "start the child ahead of time, or keep one running",
            Cause::Unknown => "read coverage: a probe may be missing; the SQL of the finding shows the calls",
        }
    }
}
