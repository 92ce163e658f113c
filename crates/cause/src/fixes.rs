//! What to do about a cause: commands with the real processes, CPUs and cgroups in them.

use crate::bills::{Bills, Who};
use crate::case::Case;
use gpuwhy_model::Cause;

/// For the causes that have a good part in it, largest first.
pub(crate) fn fixes(case: &Case<'_>, pid: u32, bills: &Bills) -> Vec<String> {
    const LEAST_SHARE_PCT: f64 = 15.0;
    let mut fixes: Vec<String> = Vec::new();
    for share in bills.shares(|_| None).iter().filter(|share| share.share_pct >= LEAST_SHARE_PCT) {
        for fix in of(case, pid, bills, share.class) {
            if !fixes.contains(&fix) {
                fixes.push(fix);
            }
        }
    }
    fixes
}

fn of(case: &Case<'_>, pid: u32, bills: &Bills, cause: Cause) -> Vec<String> {
    let process = case.process(pid);
    let cgroup = process.map(|process| process.cgroup.as_str()).unwrap_or_default();
    let folder = format!("/sys/fs/cgroup{cgroup}");
    let by = bills.main_culprit(cause).and_then(|(who, share)| match who {
        Who::Process(pid) => Some((*pid, share.comm.clone())),
        _ => None,
    });
    let words = |lines: &[&str]| lines.iter().map(ToString::to_string).collect::<Vec<_>>();
    match cause {
        Cause::CpuPreempted => preempted(case, pid, by),
        Cause::CpuThrottled => vec![
            format!("cat {folder}/cpu.max {folder}/cpu.stat"),
            format!("echo \"max 100000\" > {folder}/cpu.max, or a higher cpu limit in the pod or job"),
        ],
        Cause::CpuInterrupt => words(&[
            "watch -d cat /proc/interrupts /proc/softirqs to see which device it is",
            "move its interrupts to other CPUs: echo CPUS > /proc/irq/N/smp_affinity_list",
        ]),
        Cause::LockFutex => match by {
            Some((holder, comm)) => vec![format!(
                "see what {comm} ({holder}) does while it holds the lock: gpuwhy query \"SELECT * FROM sched_events WHERE event = 'futex' ORDER BY duration_ns DESC\""
            )],
            None => words(&["find who holds the lock: sched_events with event 'futex' name who released it"]),
        },
        Cause::PythonGil => words(&[
            "move the computing thread into a process of its own (multiprocessing, DataLoader num_workers), or into code that releases the GIL",
            "sys.setswitchinterval(0.0005) makes it give the lock up sooner",
        ]),
        Cause::MemFault => words(&[
            "touch or prefault memory before the loop; reuse buffers instead of mapping new ones",
            "raise the memory limit where pages come back from swap or files: pgmajfault in memory.stat tells",
        ]),
        Cause::MemReclaim | Cause::MemOom => vec![
            format!("cat {folder}/memory.max {folder}/memory.high {folder}/memory.pressure"),
            "raise the limit, or use less: fewer loader workers, smaller prefetch, less page cache".into(),
        ],
        Cause::IoBlock | Cause::IoFile => vec![
            "read ahead in other processes: DataLoader num_workers and prefetch_factor".into(),
            format!("cat {folder}/io.max {folder}/io.pressure for a limit; iostat -x 1 for the disk"),
            "keep the data on a local disk or in memory".into(),
        ],
        Cause::NetTcp => words(&[
            "ethtool -S DEVICE | grep -i -e drop -e err -e discard on both ends; check cable, MTU and switch port",
            "ss -ti shows retransmits of the connection",
        ]),
        Cause::NetWait => words(&["look at the peer: it answers late; its own trace says why"]),
        Cause::GpuWait => words(&[
            "leave out synchronisations: no .item(), .cpu() or print of a tensor in the loop; log every 100 steps instead",
            "where the GPU is the limit, its kernels are what to make faster",
        ]),
        Cause::GpuAlloc => words(&[
            "allocate once and reuse; cudaFree waits for all queued work: use cudaMallocAsync or a caching allocator",
            "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True, and no torch.cuda.empty_cache() in the loop",
        ]),
        Cause::GpuColdstart => words(&[
            "warm up before serving: run every shape once",
            "CUDA_MODULE_LOADING=EAGER moves loading to the start; keep compiled code: CUDA_CACHE_PATH, TORCHINDUCTOR_CACHE_DIR",
        ]),
        Cause::GpuMemory => words(&[
            "free what the named call sites hold: tensors kept in lists, graphs kept by a loss that is summed without .item() or .detach()",
            "smaller batches; torch.cuda.memory_summary() shows fragmentation",
        ]),
        Cause::CopyPcie => words(&[
            "pin host memory (pin_memory=True) and copy with non_blocking=True, so that copies run beside kernels",
            "copy less: keep data on the device, convert there",
        ]),
        Cause::LaunchBound => words(&[
            "CUDA graphs: torch.compile(mode=\"reduce-overhead\") or torch.cuda.graph",
            "fuse kernels (torch.compile), or use larger batches",
        ]),
        Cause::GraphRecapture => words(&[
            "pad inputs to a few fixed shapes and keep one graph for each",
            "update the graph in place: cudaGraphExecUpdate",
        ]),
        Cause::DriverContention => match by {
            Some((other, comm)) => vec![
                format!("{comm} ({other}) is in the GPU driver: poll less often, or not while jobs run"),
                "gpuwhy query \"SELECT pid, device, sum(count), sum(sum_ns) FROM driver_stats GROUP BY 1, 2\"".into(),
            ],
            None => words(&["see who is in the driver: driver_stats by process"]),
        },
        Cause::RankStraggler => vec![format!(
            "see why that rank is late: gpuwhy explain --pid {pid}; uneven batches, a slow disk or a busy CPU are usual"
        )],
        Cause::RankHang => vec![
            format!("py-spy dump --pid {pid}, or gdb -p {pid}, on the rank that is not there"),
            "make all ranks take the same branch: a collective must be called by all of them".into(),
        ],
        Cause::NumaRemote
        | Cause::RdmaFabric
        | Cause::GpuThrottle
        | Cause::GpuError => Vec::new(),
        Cause::SelfSleep => words(&["the program sleeps there by itself: wait for the event instead, or do it in another thread ahead of time"]),
        Cause::CpuSelf => words(&[
            "do it ahead of time in other processes (DataLoader num_workers), in vectorised code, or on the GPU",
            "perf record -g -p PID shows what native code computes",
        ]),
        Cause::PythonGc => words(&[
            "gc.freeze() after loading, and gc.disable() with gc.collect() every N steps: the collector looks at every object of the heap",
            "keep fewer Python objects: arrays and tensors instead of lists of small ones",
        ]),
        Cause::ProcWait => words(&["start the child ahead of time and wait for it later, or keep one running and talk to it"]),
        Cause::Unknown => words(&["what took this time is not covered by a probe; see coverage"]),
    }
}

fn preempted(case: &Case<'_>, pid: u32, by: Option<(u32, String)>) -> Vec<String> {
    let mut fixes = Vec::new();
    if let Some((other, comm)) = by.filter(|(other, _)| *other != pid) {
        fixes.push(format!("renice 19 -p {other}, or move {comm} away: taskset -cp OTHER_CPUS {other}"));
    }
    let allowed = case.process(pid).and_then(|process| process.cpus_allowed.clone());
    fixes.push(match allowed {
        Some(cpus) => format!(
            "give process {pid} CPUs of its own (it may use {cpus} now): cpuset, or taskset -acp CPUS {pid}"
        ),
        None => format!("give process {pid} CPUs of its own: cpuset, or taskset -acp CPUS {pid}"),
    });
    fixes
}
