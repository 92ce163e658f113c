//! The scenarios: workloads, a fault, and what there is to say at the end.

use std::time::Duration;

#[derive(Debug)]
pub(crate) struct Scenario {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    /// What the viewer is told first.
    pub(crate) story: &'static str,
    /// How the simulated GPUs behave, and what they say of themselves.
    pub(crate) environment: Variables,
    /// They run side by side; the scenario ends with the last of them.
    pub(crate) workloads: &'static [Workload],
    pub(crate) fault: Option<Fault>,
    pub(crate) ending: Ending,
    /// The run as it was recorded, compressed.
    pub(crate) recording: &'static [u8],
}

pub(crate) type Variables = &'static [(&'static str, &'static str)];

/// Arguments of a simulated workload, one space between them; `{cpu}` is the core that all share, `{folder}` a folder
/// of the run.
#[derive(Debug)]
pub(crate) struct Workload {
    pub(crate) environment: Variables,
    pub(crate) arguments: &'static str,
}

/// A process that does harm, and when it starts.
#[derive(Debug)]
pub(crate) struct Fault {
    pub(crate) arguments: &'static str,
    pub(crate) after: Duration,
}

#[derive(Debug)]
pub(crate) enum Ending {
    /// One operation is hit: what, why, who.
    Stall {
        op: &'static str,
        /// Commands that help, with the victim's and the culprit's pid.
        fix: fn(u32, u32) -> String,
    },
    /// Everything that was seen, and what to ask next.
    Tour { questions: &'static [Question] },
}

#[derive(Debug)]
pub(crate) struct Question {
    pub(crate) about: &'static str,
    pub(crate) sql: &'static str,
}

pub(crate) static SCENARIOS: &[Scenario] = &[CPU_HOG, TOUR];

const CPU_HOG: Scenario = Scenario {
    name: "cpu-hog",
    about: "a busy process on the core of the thread that launches the kernels",
    story: "A training loop launches GPU kernels from a thread on one core. After two seconds a busy process is put on\n\
            the same core: nothing in the program changed, but its launches now stall.",
    // A real launch takes a few microseconds of CPU.
    environment: &[("SIMGPU_LAUNCH_SPIN_NS", "5000")],
    workloads: &[Workload {
        environment: &[],
        arguments: "train --steps 0 --seconds 7 --launches-per-step 200 --kernel-us 2 --cpu {cpu}",
    }],
    fault: Some(Fault { arguments: "hog --seconds 4 --cpu {cpu}", after: Duration::from_secs(2) }),
    ending: Ending::Stall {
        op: "cuLaunchKernel",
        fix: |victim, culprit| {
            format!(
                "keep other work off its core: move the culprit (taskset -cp CORES {culprit}), or give the\n      \
                 thread cores of its own (taskset, cpuset, CPU manager policy static); nice does less.\n      \
                 The victim's threads: ps -L -o tid,psr,comm -p {victim}"
            )
        },
    },
    recording: include_bytes!("../../../recordings/cpu-hog.json.gz"),
};

const TOUR: Scenario = Scenario {
    name: "tour",
    about: "four ranks train on simulated GPUs: collectives, graphs, kernels, memory and GPU counters as gpuwhy sees them",
    story: "Four ranks reduce gradients on simulated GPUs, and rank 2 comes late to every collective. Beside them one\n\
            process replays a CUDA graph and another launches kernels, copies and allocates. None of them was changed.",
    environment: &[
        ("SIMGPU_DEVICES", "4"),
        ("SIMGPU_SYNC", "block"),
        ("SIMGPU_STREAM_THREADS", "1"),
        ("SIMGPU_NVML_GPM", "1"),
        ("SIMGPU_NVML_SM_PCT", "63"),
        ("SIMGPU_NVML_SM_ACTIVE_PCT", "41"),
        ("SIMGPU_NVML_TENSOR_PCT", "12"),
        ("SIMGPU_NVML_DRAM_PCT", "35"),
        ("SIMGPU_NVML_MEMORY_USED", "33G"),
        ("SIMGPU_NVML_POWER_MW", "412000"),
        ("SIMGPU_NVML_TEMPERATURE", "61"),
    ],
    workloads: &[
        rank(&[("RANK", "0"), ("LOCAL_RANK", "0"), ("WORLD_SIZE", "4")], RANK_0),
        rank(&[("RANK", "1"), ("LOCAL_RANK", "1"), ("WORLD_SIZE", "4")], RANK_1),
        rank(&[("RANK", "2"), ("LOCAL_RANK", "2"), ("WORLD_SIZE", "4")], RANK_2),
        rank(&[("RANK", "3"), ("LOCAL_RANK", "3"), ("WORLD_SIZE", "4")], RANK_3),
        Workload {
            environment: &[],
            arguments: "graph --replays 3000 --nodes 24 --copies 2 --kernel-us 20 --recapture-every 1000",
        },
        Workload {
            environment: &[],
            arguments: "train --steps 0 --seconds 4 --launches-per-step 100 --kernel-us 100 --malloc-every 5 --malloc-bytes 67108864",
        },
    ],
    fault: None,
    ending: Ending::Tour { questions: QUESTIONS },
    recording: include_bytes!("../../../recordings/tour.json.gz"),
};

const fn rank(environment: Variables, arguments: &'static str) -> Workload {
    Workload { environment, arguments }
}

const RANK_0: &str =
    "nccl --rank 0 --nranks 4 --id-file {folder}/id --iters 120 --count 4194304 --step-us 20000";
const RANK_1: &str =
    "nccl --rank 1 --nranks 4 --id-file {folder}/id --iters 120 --count 4194304 --step-us 20000";
const RANK_2: &str = "nccl --rank 2 --nranks 4 --id-file {folder}/id --iters 120 --count 4194304 --step-us 20000 --late-us 12000";
const RANK_3: &str =
    "nccl --rank 3 --nranks 4 --id-file {folder}/id --iters 120 --count 4194304 --step-us 20000";

const QUESTIONS: &[Question] = &[
    Question {
        about: "which rank comes late",
        sql: "SELECT rank, count(*) AS n, round(avg(late) / 1e6, 2) AS mean_late_ms, round(max(late) / 1e6, 2) AS max_late_ms \
              FROM (SELECT rank, timestamp_ns - min(timestamp_ns) OVER (PARTITION BY comm_id_hash, seq) AS late \
              FROM nccl_events WHERE seq IS NOT NULL) GROUP BY rank ORDER BY 3 DESC",
    },
    Question {
        about: "how busy the GPU was, at least and at most",
        sql: "SELECT pid, comm, rank, round(100.0 * sum(busy_lower_ns) / sum(window_ns)) AS at_least_pct, \
              round(100.0 * sum(busy_upper_ns) / sum(window_ns)) AS at_most_pct, sum(launches) AS launches \
              FROM gpu_time JOIN processes USING (pid) GROUP BY pid ORDER BY at_most_pct DESC",
    },
    Question {
        about: "which kernels the graphs ran",
        sql: "SELECT kernel, sum(nodes) AS nodes, sum(launches) AS launches FROM graph_kernels GROUP BY kernel ORDER BY 3 DESC",
    },
    Question {
        about: "who held the memory",
        sql: "SELECT pid, kind, max(peak_bytes) / 1048576 AS peak_mib, max(allocated_bytes) / 1048576 AS allocated_mib, \
              min(live_bytes) / 1048576 AS least_mib FROM memory_stats GROUP BY pid, kind ORDER BY 3 DESC",
    },
    Question {
        about: "what made the first calls slow",
        sql: "SELECT event, op, name, round(duration_ns / 1e3, 1) AS us FROM coldstart_events ORDER BY duration_ns DESC LIMIT 5",
    },
];
