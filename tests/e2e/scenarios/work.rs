//! How the program is built: copies, launches and graphs that take more than what they do for it. And its data.

use super::draw::Draw;
use super::loader::worker;
use super::setup::{Fault, Limit, Setup, least_launches, train, words};
use super::{Culprit, Hit, OnTorch, Program, Scenario};
use crate::reasons::device_below;

pub(super) const SCENARIOS: &[Scenario] = &[
    Scenario {
        number: 7,
        name: "slow disk in the data loader",
        quick: &[],
        set: slow_disk,
        hit: Hit::Between,
        classes: &["io.block"],
        culprit: Culprit::NotJudged,
        explained: true,
        torch: OnTorch::First(&["io.block"], Culprit::Them),
    },
    Scenario {
        number: 12,
        name: "copy bound",
        quick: &[],
        set: copies,
        hit: Hit::Op("cudaMemcpy"),
        classes: &["copy.pcie"],
        culprit: Culprit::NotJudged,
        explained: true,
        torch: OnTorch::First(&["copy.pcie"], Culprit::NotJudged),
    },
    Scenario {
        number: 13,
        name: "launch bound",
        quick: &[],
        set: launches,
        hit: Hit::Op("cuLaunchKernel"),
        classes: &["launch.bound"],
        culprit: Culprit::NotJudged,
        explained: true,
        torch: OnTorch::First(&["launch.bound"], Culprit::NotJudged),
    },
    Scenario {
        number: 14,
        name: "graph re-capture storm",
        quick: &[Program::Own],
        set: recaptures,
        hit: Hit::Anywhere,
        classes: &["graph.recapture"],
        culprit: Culprit::NotJudged,
        explained: true,
        torch: OnTorch::First(&["graph.recapture"], Culprit::NotJudged),
    },
];

/// The worker's disk, where there is a worker.
fn slow_disk(draw: &mut Draw, program: Program) -> Setup {
    let bytes_per_s = draw.between(2, 12) << 20;
    let batch = draw.between(64, 512) << 10;
    let file = Setup::file(16 << 20);
    // Steps of two milliseconds and more: a batch that is read from the cache is little beside them.
    let (launches, kernel_us) = match program {
        Program::Own => (draw.between(20, 30), draw.between(100, 300)),
        // Nor is the disk hidden behind a busy GPU.
        Program::Torch => (draw.between(20, 120), draw.between(1, 10)),
    };
    let data = words(&format!("--data {} --data-bytes {batch} --cached 1", file.path()));
    // Where there is no disk to limit, the cgroup cannot be made, and that is said.
    let disk = device_below(file.0.path()).map_or_else(|| "no disk".into(), |(_, disk)| disk);
    let limit = Limit {
        controller: "blkio",
        version_1: vec![("blkio.throttle.read_bps_device", format!("{disk} {bytes_per_s}"))],
        version_2: vec![("io.max", format!("{disk} rbps={bytes_per_s}"))],
    };
    Setup {
        words: [train(program, 3, launches, kernel_us), data].concat(),
        _file: Some(file),
        fault: Fault {
            words: words("--cached 0"),
            limit: Some(limit),
            culprit: (program == Program::Torch).then(worker),
            ..Fault::default()
        },
        ..Setup::default()
    }
}

/// Large copies from pageable memory, over a link that is slow for them.
fn copies(draw: &mut Draw, program: Program) -> Setup {
    let (launches, kernel_us) = (draw.between(5, 30), draw.between(5, 50));
    let rate = draw.between(2, 12) * 1_000_000_000;
    let bytes = draw.between(8, 64) << 20;
    Setup {
        words: [
            train(program, 2, launches.max(least_launches(program)), kernel_us),
            words("--pageable --copy-bytes 16K"),
        ]
        .concat(),
        env: vec![("SIMGPU_COPY_BYTES_PER_S", rate.to_string())],
        fault: Fault { words: words(&format!("--copy-bytes {bytes}")), ..Fault::default() },
        ..Setup::default()
    }
}

/// Kernels that are over before Python, or what stands for it, has launched the next one.
fn launches(draw: &mut Draw, program: Program) -> Setup {
    let launches = draw.between(50, 500);
    Setup {
        python: program == Program::Own,
        words: [train(program, 2, launches, draw.between(100, 300)), words("--copy-bytes 0")].concat(),
        fault: Fault { words: words(&format!("--kernel-us {}", draw.between(1, 2))), ..Fault::default() },
        ..Setup::default()
    }
}

/// Shapes change, and the graph is captured again.
fn recaptures(draw: &mut Draw, program: Program) -> Setup {
    let (nodes, kernel_us, every) = (draw.between(10, 100), draw.between(1, 20), draw.between(1, 3));
    let replays = draw.between(800, 2_000);
    Setup {
        words: match program {
            Program::Own => {
                words(&format!("graph --replays {replays} --nodes {nodes} --kernel-us {kernel_us}"))
            }
            Program::Torch => [train(program, 2, 4 * nodes, kernel_us), words("--graphs")].concat(),
        },
        fault: Fault { words: words(&format!("--recapture-every {every}")), ..Fault::default() },
        ..Setup::default()
    }
}
