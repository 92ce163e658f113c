//! What to do about a cause: words, and commands with the real processes and cgroups in them, which stand between backticks and can be
//! pasted as they are.

use crate::attribution::{Attribution, Who};
use crate::case::Case;
use gpuwhy_model::Cause;
use gpuwhy_model::advice::plain;
use gpuwhy_model::units::quoted;

/// For the causes that have a good part in it, largest first.
pub(crate) fn fixes(case: &Case<'_>, pid: u32, attribution: &Attribution) -> Vec<String> {
    const MIN_SHARE_PCT: f64 = 15.0;
    let mut fixes: Vec<String> = Vec::new();
    for share in attribution.shares(|_| None).iter().filter(|share| share.share_pct >= MIN_SHARE_PCT) {
        for fix in of(case, pid, attribution, share.class) {
            if !fixes.contains(&fix) {
                fixes.push(fix);
            }
        }
    }
    fixes
}

fn of(case: &Case<'_>, pid: u32, attribution: &Attribution, cause: Cause) -> Vec<String> {
    let process = case.process(pid);
    let cgroup = process.map(|process| process.cgroup.as_str()).unwrap_or_default();
    let by = attribution.main_culprit(cause).and_then(|(who, share)| match who {
        Who::Process(pid) => Some((*pid, plain(&share.comm))),
        _ => None,
    });
    let words = |lines: &[&str]| lines.iter().map(ToString::to_string).collect::<Vec<_>>();
    match cause {
        Cause::CpuPreempted => preempted(case, pid, by),
        Cause::CpuThrottled => see_limit(cgroup, "the limit and how often it held the process", &["cpu.max", "cpu.stat"])
            .into_iter()
            .chain(["raise the CPU limit of the pod, the job or the cgroup (cpu.max)".into()])
            .collect(),
        Cause::CpuInterrupt => words(&[
            "see which device it is: `watch -d cat /proc/interrupts /proc/softirqs`",
            "move its interrupts to other CPUs (/proc/irq/N/smp_affinity_list)",
        ]),
        Cause::LockFutex => match by {
            Some((holder, comm)) => vec![format!(
                "see what {comm} ({holder}) does while it holds the lock: `gpuwhy query \"SELECT * FROM sched_events WHERE event = 'futex' ORDER BY duration_ns DESC\"`"
            )],
            None => words(&["find who holds the lock: sched_events with event 'futex' name who released it"]),
        },
        Cause::PythonGil => words(&[
            "move the computing thread into a process of its own (multiprocessing, DataLoader num_workers), or into code that releases the GIL",
            "sys.setswitchinterval(0.0005) makes it give the lock up sooner",
        ]),
        Cause::MemFault => words(&["touch or prefault memory before the loop; reuse buffers instead of mapping new ones"])
            .into_iter()
            .chain(see_limit(cgroup, "whether pages come back from swap or files (pgmajfault)", &["memory.stat"]))
            .collect(),
        Cause::MemReclaim | Cause::MemOom => {
            see_limit(cgroup, "the limit", &["memory.max", "memory.high", "memory.pressure"])
                .into_iter()
                .chain(["raise the limit, or use less: fewer loader workers, smaller prefetch, less page cache".into()])
                .collect()
        }
        Cause::IoBlock | Cause::IoFile => {
            words(&["read ahead in other processes: DataLoader num_workers and prefetch_factor"])
                .into_iter()
                .chain(see_limit(cgroup, "whether a limit holds it", &["io.max", "io.pressure"]))
                .chain(words(&["see how busy the disk is: `iostat -x 1 5`", "keep the data on a local disk or in memory"]))
                .collect()
        }
        Cause::NetTcp => words(&[
            "see drops and errors of the network cards, on both ends: `ip -s -s link`; check cable, MTU and switch port",
            "see which connections send again: `ss -tin state established`",
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
                "see who is in the driver: `gpuwhy query \"SELECT pid, device, sum(count), sum(sum_ns) FROM driver_stats GROUP BY 1, 2\"`".into(),
            ],
            None => words(&["see who is in the driver: driver_stats by process"]),
        },
        Cause::RankStraggler => vec![format!(
            "see why that rank is late: `gpuwhy explain --pid {pid}`; uneven batches, a slow disk or a busy CPU are usual"
        )],
        // Where no process of that rank was seen, there is none to look into.
        Cause::RankHang => (pid != 0)
            .then(|| {
                [
                    format!("see where that rank is: `sudo py-spy dump --pid {pid}`"),
                    format!("or its native stacks: `sudo gdb -p {pid} -batch -ex 'thread apply all bt'`"),
                ]
            })
            .into_iter()
            .flatten()
            .chain(["make all ranks take the same branch: a collective must be called by all of them".into()])
            .collect(),
        Cause::NumaRemote
        | Cause::RdmaFabric
        | Cause::GpuThrottle
        | Cause::GpuError => Vec::new(),
        Cause::SelfSleep => words(&["the program sleeps there by itself: wait for the event instead, or do it in another thread ahead of time"]),
        Cause::CpuSelf => {
            let computes = by.map_or(pid, |(by, _)| by);
            vec![
                "do it ahead of time in other processes (DataLoader num_workers), in vectorised code, or on the GPU".into(),
                format!("see what native code computes: `sudo perf record -g -p {computes} -- sleep 10`"),
            ]
        }
        Cause::PythonGc => words(&[
            "gc.freeze() after loading, and gc.disable() with gc.collect() every N steps: the collector looks at every object of the heap",
            "keep fewer Python objects: arrays and tensors instead of lists of small ones",
        ]),
        Cause::ProcWait => words(&["start the child ahead of time and wait for it later, or keep one running and talk to it"]),
        Cause::Unknown => words(&["what took this time is not covered by a probe; see coverage"]),
    }
}

/// Files of a process's cgroup; the root has no limits.
pub(crate) fn see_limit(cgroup: &str, what: &str, files: &[&str]) -> Option<String> {
    let cgroup = cgroup.trim_end_matches('/');
    let paths = files.iter().map(|file| quoted(&format!("/sys/fs/cgroup{cgroup}/{file}")));
    (!cgroup.is_empty()).then(|| format!("see {what}: `cat {}`", paths.collect::<Vec<_>>().join(" ")))
}

fn preempted(case: &Case<'_>, pid: u32, by: Option<(u32, String)>) -> Vec<String> {
    let mut fixes = Vec::new();
    if let Some((other, comm)) = by.filter(|(other, _)| *other != pid) {
        fixes.push(format!("let {comm} ({other}) have what is left: `sudo renice -n 19 -p {other}`"));
    }
    let allowed = case.process(pid).and_then(|process| process.cpus_allowed.clone());
    let now = allowed.map_or_else(String::new, |cpus| format!(" (it may use {cpus} now)"));
    fixes.push(format!("give process {pid} CPUs of its own{now}, with a cpuset or taskset"));
    fixes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attribution::Share;
    use crate::evidence::Evidence;
    use gpuwhy_model::advice::parts;
    use gpuwhy_model::{Process, units};

    /// Names that a shell would take apart, and one that looks like a command.
    fn evidence() -> Evidence {
        let process = Process {
            pid: 7,
            comm: "python3".into(),
            cgroup: "/kube pods/it's;reboot".into(),
            cpus_allowed: Some("0-3".into()),
            ..Process::default()
        };
        Evidence { processes: vec![process], ..Evidence::default() }
    }

    #[test]
    fn commands_have_real_numbers_and_a_shell_reads_them_as_one() {
        let evidence = evidence();
        let case = Case::new(&evidence);
        let mut commands = 0;
        for cause in Cause::ALL {
            let mut attribution = Attribution::default();
            attribution.add(*cause, 1);
            let share =
                Share { comm: "`rm -rf ~`".into(), pid: Some(99), ns: 1, count: 1, ..Share::default() };
            attribution.blame(*cause, Who::Process(99), share);
            for fix in of(&case, 7, &attribution, *cause) {
                assert!(!fix.contains("`rm"), "{fix}");
                for holder in ["PID", "CPUS", "DEVICE", "WATTS", "FILE"] {
                    assert!(!fix.contains(holder), "{fix}");
                }
                let Some((words, command, _)) = parts(&fix) else { continue };
                commands += 1;
                assert!(!command.contains(", or ") && words.ends_with(": "), "{fix}");
                // Nothing of a name is a command of its own.
                let check = std::process::Command::new("sh").args(["-n", "-c", command]).output().unwrap();
                assert!(
                    check.status.success(),
                    "{command}: {}",
                    units::printable(&String::from_utf8_lossy(&check.stderr))
                );
                assert!(!command.replace("it'\\''s;reboot", "").contains(';'), "{command}");
            }
        }
        assert!(commands >= 12, "{commands}");
        let of_hang = of(&case, 0, &Attribution::default(), Cause::RankHang);
        assert!(of_hang.iter().all(|fix| parts(fix).is_none()), "{of_hang:?}");
    }
}
