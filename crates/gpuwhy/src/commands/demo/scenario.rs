//! The scenarios: a workload, a fault, and what to do about it.

use std::time::Duration;

/// One injected stall.
#[derive(Debug)]
pub(crate) struct Scenario {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    /// What the viewer is told first.
    pub(crate) story: &'static str,
    /// The operation that is hit.
    pub(crate) op: &'static str,
    /// Arguments of the simulated workload; `{cpu}` is the core it is pinned to.
    pub(crate) workload: &'static [&'static str],
    pub(crate) environment: &'static [(&'static str, &'static str)],
    /// Arguments of the process that does the harm, and when it starts.
    pub(crate) fault: &'static [&'static str],
    pub(crate) fault_after: Duration,
    /// Commands that help, with the victim's and the culprit's pid.
    pub(crate) fix: fn(u32, u32) -> String,
    /// The run as it was recorded, compressed.
    pub(crate) recording: &'static [u8],
}

pub(crate) static SCENARIOS: &[Scenario] = &[Scenario {
    name: "cpu-hog",
    about: "a busy process on the core of the thread that launches the kernels",
    story: "A training loop launches GPU kernels from a thread on one core. After two seconds a busy process is put on\n\
            the same core: nothing in the program changed, but its launches now stall.",
    op: "cuLaunchKernel",
    workload: &[
        "train",
        "--steps",
        "0",
        "--seconds",
        "7",
        "--launches-per-step",
        "200",
        "--kernel-us",
        "2",
        "--cpu",
        "{cpu}",
    ],
    // A real launch takes a few microseconds of CPU.
    environment: &[("SIMGPU_LAUNCH_SPIN_NS", "5000")],
    fault: &["hog", "--seconds", "4", "--cpu", "{cpu}"],
    fault_after: Duration::from_secs(2),
    fix: |victim, culprit| {
        format!(
            "keep other work off its core: move the culprit (taskset -cp CORES {culprit}), or give the\n      \
             thread cores of its own (taskset, cpuset, CPU manager policy static); nice does less.\n      \
             The victim's threads: ps -L -o tid,psr,comm -p {victim}"
        )
    },
    recording: include_bytes!("../../../recordings/cpu-hog.json.gz"),
}];
