//! Memory: the host's pages, and the device's.

use super::draw::Draw;
use super::setup::{Fault, Setup, Who, launches, least_launches, train, words};
use super::{Culprit, Hit, OnTorch, Program, Scenario};

pub(super) const SCENARIOS: &[Scenario] = &[
    Scenario {
        number: 8,
        name: "page faults",
        quick: &[],
        set: fresh_memory,
        hit: Hit::Op("cuLaunchKernel"),
        classes: &["mem.fault", "mem.reclaim"],
        culprit: Culprit::NotJudged,
        explained: true,
        torch: OnTorch::First(&["mem.fault", "mem.reclaim"], Culprit::NotJudged),
    },
    Scenario {
        number: 9,
        name: "out of memory on the device",
        quick: &[Program::Own],
        set: device_full,
        hit: Hit::Op("cudaMalloc"),
        classes: &["gpu.memory"],
        culprit: Culprit::Them,
        explained: true,
        torch: OnTorch::First(&["gpu.memory"], Culprit::Them),
    },
    Scenario {
        number: 10,
        name: "synchronising free",
        quick: &[],
        set: free_waits,
        hit: Hit::Op("cudaFree"),
        classes: &["gpu.alloc"],
        culprit: Culprit::NotJudged,
        explained: true,
        torch: OnTorch::First(&["gpu.alloc"], Culprit::NotJudged),
    },
];

/// Launches that touch memory that is not there yet.
fn fresh_memory(draw: &mut Draw, program: Program) -> Setup {
    let bytes = draw.between(256, 8192) << 10;
    let (launches, kernel_us) = (draw.between(5, 50).max(least_launches(program)), draw.between(5, 50));
    Setup {
        words: train(program, 2, launches, kernel_us),
        fault: Fault { env: vec![("SIMGPU_FAULT_BYTES", bytes.to_string())], ..Fault::default() },
        ..Setup::default()
    }
}

/// Allocations that are never freed, on a device that is too small for them.
fn device_full(draw: &mut Draw, program: Program) -> Setup {
    let bytes = draw.between(1, 16) << 20;
    let count = draw.between(20, 60);
    if program == Program::Torch {
        let (launches, kernel_us) = (launches(draw, program, 5, 50), draw.between(5, 50));
        return Setup {
            words: train(program, 2, launches, kernel_us),
            fault: Fault {
                env: vec![("SIMGPU_MEMORY", (bytes * count * 4).to_string())],
                words: words(&format!("--leak-bytes {bytes}")),
                culprit: Some(Who::Own),
                ..Fault::default()
            },
            ..Setup::default()
        };
    }
    Setup {
        words: words(&format!("leak --bytes {bytes} --limit {count} --free 1")),
        fault: Fault {
            env: vec![("SIMGPU_MEMORY", (bytes * (count / 2)).to_string())],
            words: words("--limit 0"),
            culprit: Some(Who::Own),
            ..Fault::default()
        },
        ..Setup::default()
    }
}

/// Memory is freed behind launches, and the free waits for them.
fn free_waits(draw: &mut Draw, program: Program) -> Setup {
    let (launches, kernel_us) = (draw.between(5, 30).max(least_launches(program)), draw.between(100, 500));
    Setup {
        words: train(program, 2, launches, kernel_us),
        fault: Fault { words: words(&format!("--malloc-every {}", draw.between(1, 3))), ..Fault::default() },
        ..Setup::default()
    }
}
