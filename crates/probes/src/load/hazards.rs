//! Kernels that are known to hurt when probed, and what is done about it.

use super::kernel_types::kernel_version;

/// Something a kernel does badly.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hazard {
    pub about: &'static str,
    /// What gpuwhy does about it.
    pub guard: &'static str,
    /// Tracing would put the host at risk: it is refused.
    pub refused: bool,
    /// From this version on, and before that one.
    from: (u32, u32),
    before: (u32, u32),
    /// On hosts with at least so many CPUs.
    cpus: usize,
}

const EVER: (u32, u32) = (u32::MAX, 0);

static HAZARDS: &[Hazard] = &[
    Hazard {
        about: "no task storage for these programs, or too little of it",
        guard: "tracing is refused; use kernel 5.15 or newer",
        refused: true,
        from: (0, 1),
        before: (5, 15),
        cpus: 0,
    },
    Hazard {
        about: "the stack of a probe's program is one of the CPU, and a fully preemptible kernel switches threads meanwhile",
        guard: "none here: calls of threads that are preempted in a probe can be mixed up; use 6.15 or newer",
        refused: false,
        from: (6, 13),
        before: (6, 15),
        cpus: 0,
    },
    Hazard {
        about: "the stack of a probe's program is one of the CPU, and a fully preemptible kernel switches threads meanwhile",
        guard: "programs keep the CPU until they are done",
        refused: false,
        from: (6, 15),
        before: EVER,
        cpus: 0,
    },
    Hazard {
        about: "probe programs can be preempted while the kernel walks a stack for them in a buffer of the CPU's",
        guard: "stacks are taken with preemption disabled where the kernel lets programs do that (6.10)",
        refused: false,
        from: (6, 0),
        before: (6, 15),
        cpus: 0,
    },
    Hazard {
        about: "a trap takes a lock that all CPUs share: one hot process makes it several times dearer",
        guard: "the budget lets go of what is called too often",
        refused: false,
        from: (0, 1),
        before: (6, 13),
        cpus: 32,
    },
    Hazard {
        about: "a probe that is a perf event of its own takes a quarter of a second to detach",
        guard: "probes are attached many at a time",
        refused: false,
        from: (6, 12),
        before: EVER,
        cpus: 0,
    },
];

/// Those of the running kernel on a host of so many CPUs.
pub fn hazards(cpus: usize) -> Vec<&'static Hazard> {
    of_version(kernel_version(), cpus)
}

fn of_version(version: (u32, u32), cpus: usize) -> Vec<&'static Hazard> {
    let applies = |hazard: &&Hazard| (hazard.from..hazard.before).contains(&version) && cpus >= hazard.cpus;
    HAZARDS.iter().filter(applies).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_kernels_are_refused_and_new_ones_guarded() {
        assert!(of_version((5, 10), 2).iter().any(|hazard| hazard.refused));
        assert!(!of_version((5, 15), 2).iter().any(|hazard| hazard.refused));
        assert!(of_version((6, 8), 64).iter().any(|hazard| hazard.about.contains("lock")));
        assert!(!of_version((6, 8), 8).iter().any(|hazard| hazard.about.contains("lock")));
        assert!(of_version((7, 0), 2).iter().any(|hazard| hazard.guard.contains("keep the CPU")));
        assert!(of_version((0, 0), 2).is_empty(), "a kernel that does not say is tried");
    }
}
