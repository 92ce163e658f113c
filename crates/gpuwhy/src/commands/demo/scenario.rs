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
    pub(crate) recording: Recorded,
}

impl Scenario {
    /// It can be run here; the others were recorded on hardware of their own.
    pub(crate) fn is_live(&self) -> bool {
        !self.workloads.is_empty()
    }
}

pub(crate) type Variables = &'static [(&'static str, &'static str)];

/// Arguments of a simulated workload, one space between them; `{cpu}` is the core that all share, `{folder}` a folder
/// of the run.
#[derive(Debug)]
pub(crate) struct Workload {
    pub(crate) environment: Variables,
    pub(crate) arguments: &'static str,
    /// It does not end by itself.
    pub(crate) seconds: Option<u32>,
}

/// A process that does harm, and when it starts.
#[derive(Debug)]
pub(crate) struct Fault {
    pub(crate) arguments: &'static str,
    pub(crate) after: Duration,
}

#[derive(Debug)]
pub(crate) enum Ending {
    /// What is wrong, as `explain` says it.
    Explain,
    /// Everything that was seen, and what to ask next.
    Tour { questions: &'static [Question] },
}

/// A run as it was recorded, compressed.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Recorded {
    /// What came out of the kernel; it can be made anew with `demo NAME --record`.
    Batches(&'static [u8]),
    /// The trace file of a run on real hardware, and where that was.
    File { trace: &'static [u8], about: &'static str },
}

#[derive(Debug)]
pub(crate) struct Question {
    pub(crate) about: &'static str,
    pub(crate) sql: &'static str,
}

pub(crate) static SCENARIOS: &[Scenario] = &[
    CPU_HOG,
    LOCK,
    PAGE_FAULTS,
    COLD_START,
    FREES,
    GPU_BUSY,
    COPIES,
    RECAPTURE,
    OUT_OF_MEMORY,
    LATE_RANK,
    MISMATCH,
    HOT_GPU,
    H200_ITEM,
    H200_LOADER,
    TOUR,
];

/// A real launch takes a few microseconds of CPU.
const REAL_LAUNCH: (&str, &str) = ("SIMGPU_LAUNCH_SPIN_NS", "5000");

const CPU_HOG: Scenario = Scenario {
    name: "cpu-hog",
    about: "a busy process on the core of the thread that launches the kernels",
    story: "A training loop launches GPU kernels from a thread on one core. After two seconds a busy process is put on\n\
            the same core: nothing in the program changed, but its launches now stall.",
    environment: &[REAL_LAUNCH],
    workloads: &[Workload {
        environment: &[],
        seconds: None,
        arguments: "train --steps 0 --seconds 7 --launches-per-step 200 --kernel-us 2 --cpu {cpu}",
    }],
    fault: Some(Fault { arguments: "hog --seconds 4 --cpu {cpu}", after: Duration::from_secs(2) }),
    ending: Ending::Explain,
    recording: Recorded::Batches(include_bytes!("../../../recordings/cpu-hog.json.gz")),
};

const LOCK: Scenario = Scenario {
    name: "lock",
    about: "a thread of the same process holds a lock that every launch needs",
    story: "A program launches kernels, first undisturbed; then another thread of it takes a lock that launches need, and\n\
            keeps it for 20 ms at a time.",
    environment: &[REAL_LAUNCH],
    workloads: &[Workload {
        environment: &[],
        seconds: None,
        arguments: "mutex --hold-ms 20 --rounds 150 --calm-launches 60000",
    }],
    fault: None,
    ending: Ending::Explain,
    recording: Recorded::Batches(include_bytes!("../../../recordings/lock.json.gz")),
};

const PAGE_FAULTS: Scenario = Scenario {
    name: "page-faults",
    about: "launches that touch freshly mapped memory each time",
    story: "Each launch of this training loop touches memory that was mapped just before: the kernel has to find pages for\n\
            it while the GPU waits for work.",
    environment: &[REAL_LAUNCH, ("SIMGPU_FAULT_BYTES", "1M")],
    workloads: &[Workload {
        environment: &[],
        seconds: None,
        arguments: "train --steps 0 --seconds 4 --launches-per-step 50 --kernel-us 20",
    }],
    fault: None,
    ending: Ending::Explain,
    recording: Recorded::Batches(include_bytes!("../../../recordings/page-faults.json.gz")),
};

const COLD_START: Scenario = Scenario {
    name: "cold-start",
    about: "a fresh process whose first launch loads its code",
    story: "A fresh process answers its first requests: its first launch has to load the code, and takes longer than the\n\
            thousand that follow.",
    environment: &[REAL_LAUNCH, ("SIMGPU_COLD_US", "2200000"), ("SIMGPU_MODULE_US", "150000")],
    workloads: &[Workload {
        environment: &[],
        seconds: None,
        arguments: "train --steps 0 --seconds 3 --launches-per-step 50 --kernel-us 1 --copy-bytes 4096",
    }],
    fault: None,
    ending: Ending::Explain,
    recording: Recorded::Batches(include_bytes!("../../../recordings/cold-start.json.gz")),
};

const FREES: Scenario = Scenario {
    name: "frees",
    about: "device memory freed in every step: each free waits for all queued work",
    story: "A training loop allocates and frees device memory in every step. Freeing waits until everything queued is done,\n\
            so the host cannot run ahead of the GPU.",
    environment: &[REAL_LAUNCH],
    workloads: &[Workload {
        environment: &[],
        seconds: None,
        arguments: "train --steps 0 --seconds 4 --launches-per-step 40 --kernel-us 250 --malloc-every 1 --malloc-bytes 67108864",
    }],
    fault: None,
    ending: Ending::Explain,
    recording: Recorded::Batches(include_bytes!("../../../recordings/frees.json.gz")),
};

const GPU_BUSY: Scenario = Scenario {
    name: "gpu-busy",
    about: "long kernels: the host waits for the GPU, and nothing is wrong with the host",
    story: "Long kernels, and a synchronisation after each step. The thread spins on the CPU while it waits, which other\n\
            tools take for a busy CPU.",
    environment: &[REAL_LAUNCH],
    workloads: &[Workload {
        environment: &[],
        seconds: None,
        arguments: "train --steps 0 --seconds 4 --launches-per-step 20 --kernel-us 2000",
    }],
    fault: None,
    ending: Ending::Explain,
    recording: Recorded::Batches(include_bytes!("../../../recordings/gpu-busy.json.gz")),
};

const COPIES: Scenario = Scenario {
    name: "copies",
    about: "large copies from pageable memory dominate each step",
    story: "Each step copies a large batch to the device, and computes little with it.",
    environment: &[REAL_LAUNCH, ("SIMGPU_COPY_BYTES_PER_S", "6G")],
    workloads: &[Workload {
        environment: &[],
        seconds: None,
        arguments: "train --steps 0 --seconds 4 --launches-per-step 20 --kernel-us 20 --copy-bytes 67108864 --pageable",
    }],
    fault: None,
    ending: Ending::Explain,
    recording: Recorded::Batches(include_bytes!("../../../recordings/copies.json.gz")),
};

const RECAPTURE: Scenario = Scenario {
    name: "recapture",
    about: "a graph captured anew for every launch, as shapes change",
    story: "A program that uses CUDA graphs captures one for each step, because its shapes change: making them costs more\n\
            than they save.",
    environment: &[REAL_LAUNCH],
    workloads: &[Workload {
        environment: &[],
        seconds: None,
        arguments: "graph --replays 200 --nodes 200 --kernel-us 2 --recapture-every 1",
    }],
    fault: None,
    ending: Ending::Explain,
    recording: Recorded::Batches(include_bytes!("../../../recordings/recapture.json.gz")),
};

const OUT_OF_MEMORY: Scenario = Scenario {
    name: "out-of-memory",
    about: "memory that is never freed, until an allocation fails",
    story: "A program allocates device memory and never frees it, until there is none left.",
    environment: &[REAL_LAUNCH, ("SIMGPU_ALLOC_SPIN_NS", "100000")],
    workloads: &[Workload { environment: &[], seconds: None, arguments: "leak --bytes 4194304" }],
    fault: None,
    ending: Ending::Explain,
    recording: Recorded::Batches(include_bytes!("../../../recordings/out-of-memory.json.gz")),
};

const FOUR_GPUS: (&str, &str) = ("SIMGPU_DEVICES", "4");

const LATE_RANK: Scenario = Scenario {
    name: "late-rank",
    about: "four ranks train together, and one comes late to every collective",
    story: "Four ranks reduce gradients together. Rank 2 comes 12 ms late to every collective, and all others wait for it.",
    environment: &[REAL_LAUNCH, FOUR_GPUS, ("SIMGPU_SYNC", "block"), ("SIMGPU_STREAM_THREADS", "1")],
    workloads: &[
        rank(&[("RANK", "0"), ("LOCAL_RANK", "0"), ("WORLD_SIZE", "4")], RANK_0),
        rank(&[("RANK", "1"), ("LOCAL_RANK", "1"), ("WORLD_SIZE", "4")], RANK_1),
        rank(&[("RANK", "2"), ("LOCAL_RANK", "2"), ("WORLD_SIZE", "4")], RANK_2),
        rank(&[("RANK", "3"), ("LOCAL_RANK", "3"), ("WORLD_SIZE", "4")], RANK_3),
    ],
    fault: None,
    ending: Ending::Explain,
    recording: Recorded::Batches(include_bytes!("../../../recordings/late-rank.json.gz")),
};

const MISMATCH: Scenario = Scenario {
    name: "mismatch",
    about: "one of three ranks calls a collective with another count than the others",
    story: "Three ranks reduce gradients together. In its 40th collective rank 1 passes another count than the\n\
            others: nobody gets any further.",
    environment: &[REAL_LAUNCH, FOUR_GPUS, ("SIMGPU_SYNC", "block"), ("SIMGPU_STREAM_THREADS", "1")],
    workloads: &[
        hanging_rank(&[("RANK", "0"), ("WORLD_SIZE", "3")], ODD_RANK_0),
        hanging_rank(&[("RANK", "1"), ("WORLD_SIZE", "3")], ODD_RANK_1),
        hanging_rank(&[("RANK", "2"), ("WORLD_SIZE", "3")], ODD_RANK_2),
    ],
    fault: None,
    ending: Ending::Explain,
    recording: Recorded::Batches(include_bytes!("../../../recordings/mismatch.json.gz")),
};

const ODD_RANK_0: &str =
    "nccl --rank 0 --nranks 3 --id-file {folder}/id --iters 60 --count 4096 --step-us 20000";
const ODD_RANK_1: &str =
    "nccl --rank 1 --nranks 3 --id-file {folder}/id --iters 60 --count 4096 --step-us 20000 --mismatch-at 40";
const ODD_RANK_2: &str =
    "nccl --rank 2 --nranks 3 --id-file {folder}/id --iters 60 --count 4096 --step-us 20000";

const HOT_GPU: Scenario = Scenario {
    name: "hot-gpu",
    about: "a GPU that lowers its clocks because it is too hot",
    story: "A training loop is slower than yesterday. The host is well; the GPU is not.",
    environment: &[
        REAL_LAUNCH,
        ("SIMGPU_NVML_SM_PCT", "97"),
        ("SIMGPU_NVML_SM_CLOCK", "1035"),
        ("SIMGPU_NVML_THROTTLE", "64"),
        ("SIMGPU_NVML_TEMPERATURE", "91"),
        ("SIMGPU_NVML_POWER_MW", "310000"),
    ],
    workloads: &[Workload {
        environment: &[],
        seconds: None,
        arguments: "train --steps 0 --seconds 4 --launches-per-step 20 --kernel-us 1000",
    }],
    fault: None,
    ending: Ending::Explain,
    recording: Recorded::Batches(include_bytes!("../../../recordings/hot-gpu.json.gz")),
};

const H200: &str = "a run on an NVIDIA H200 with PyTorch 2.11 and Python 3.12, of 2026-11-15";

const H200_ITEM: Scenario = Scenario {
    name: "h200-item",
    about: "recorded on a real H200: a forgotten .item() in a PyTorch training loop",
    story: "A PyTorch training loop on an H200 logs its loss in every step: `loss.item()` has to wait until the GPU is done, so\n\
            the host never runs ahead of it.",
    environment: &[],
    workloads: &[],
    fault: None,
    ending: Ending::Explain,
    recording: Recorded::File { trace: include_bytes!("../../../recordings/h200-item.db.gz"), about: H200 },
};

const H200_LOADER: Scenario = Scenario {
    name: "h200-loader",
    about: "recorded on a real H200: a PyTorch training loop that reads its batches from a slow disk",
    story: "A PyTorch training loop on an H200 reads each batch from a disk, past the page cache, in the thread that launches.",
    environment: &[],
    workloads: &[],
    fault: None,
    ending: Ending::Explain,
    recording: Recorded::File { trace: include_bytes!("../../../recordings/h200-loader.db.gz"), about: H200 },
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
            seconds: None,
            arguments: "graph --replays 3000 --nodes 24 --copies 2 --kernel-us 20 --recapture-every 1000",
        },
        Workload {
            environment: &[],
            seconds: None,
            arguments: "train --steps 0 --seconds 4 --launches-per-step 100 --kernel-us 100 --malloc-every 5 --malloc-bytes 67108864",
        },
    ],
    fault: None,
    ending: Ending::Tour { questions: QUESTIONS },
    recording: Recorded::Batches(include_bytes!("../../../recordings/tour.json.gz")),
};

const fn rank(environment: Variables, arguments: &'static str) -> Workload {
    Workload { environment, arguments, seconds: None }
}

/// One that may hang, and then is ended.
const fn hanging_rank(environment: Variables, arguments: &'static str) -> Workload {
    Workload { environment, arguments, seconds: Some(8) }
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
