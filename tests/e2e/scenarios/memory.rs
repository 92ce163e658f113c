//! Memory: the host's pages, and the device's.

use super::draw::Draw;
use super::setup::{Fault, Setup, Who, words};
use super::{Culprit, Hit, Scenario};

pub(super) const SCENARIOS: &[Scenario] = &[
    Scenario {
        number: 8,
        name: "page faults",
        quick: false,
        set: fresh_memory,
        hit: Hit::Op("cuLaunchKernel"),
        classes: &["mem.fault", "mem.reclaim"],
        culprit: Culprit::NotJudged,
        explained: true,
    },
    Scenario {
        number: 9,
        name: "out of memory on the device",
        quick: true,
        set: device_full,
        hit: Hit::Op("cudaMalloc"),
        classes: &["gpu.memory"],
        culprit: Culprit::Them,
        explained: true,
    },
    Scenario {
        number: 10,
        name: "synchronising free",
        quick: false,
        set: free_waits,
        hit: Hit::Op("cudaFree"),
        classes: &["gpu.alloc"],
        culprit: Culprit::NotJudged,
        explained: true,
    },
];

/// Launches that touch memory that is not there yet.
fn fresh_memory(draw: &mut Draw) -> Setup {
    let bytes = draw.between(256, 8192) << 10;
    let (launches, kernel_us) = (draw.between(5, 50), draw.between(5, 50));
    Setup {
        words: words(&format!(
            "train --steps 0 --seconds 2 --launches-per-step {launches} --kernel-us {kernel_us}"
        )),
        fault: Fault { env: vec![("SIMGPU_FAULT_BYTES", bytes.to_string())], ..Fault::default() },
        ..Setup::default()
    }
}

/// Allocations that are never freed, on a device that is too small for them.
fn device_full(draw: &mut Draw) -> Setup {
    let bytes = draw.between(1, 16) << 20;
    let count = draw.between(20, 60);
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
fn free_waits(draw: &mut Draw) -> Setup {
    let (launches, kernel_us) = (draw.between(5, 30), draw.between(100, 500));
    Setup {
        words: words(&format!(
            "train --steps 0 --seconds 2 --launches-per-step {launches} --kernel-us {kernel_us}"
        )),
        fault: Fault { words: words(&format!("--malloc-every {}", draw.between(1, 3))), ..Fault::default() },
        ..Setup::default()
    }
}
