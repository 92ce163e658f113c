//! The GPU: busy, cold, slow, or broken; and its driver.

use super::draw::Draw;
use super::setup::{Fault, Neighbour, Setup, hog, launches, least_launches, train, words};
use super::{Culprit, Hit, OnTorch, Program, Scenario};
use crate::support::sim;

pub(super) const SCENARIOS: &[Scenario] = &[
    Scenario {
        number: 6,
        name: "cold start",
        quick: &[],
        set: cold,
        hit: Hit::OneOf(&[
            "cuLaunchKernel",
            "cuModuleLoadData",
            "cuModuleLoad",
            "cuLinkComplete",
            "cuLinkAddData_v2",
        ]),
        classes: &["gpu.coldstart"],
        culprit: Culprit::NotJudged,
        explained: true,
        torch: OnTorch::AtStart(&["gpu.coldstart"]),
    },
    Scenario {
        number: 11,
        name: "GPU busy",
        quick: &[],
        set: busy,
        hit: Hit::Op("cudaStreamSynchronize"),
        classes: &["gpu.wait"],
        culprit: Culprit::NotJudged,
        explained: true,
        torch: OnTorch::First(&["gpu.wait"], Culprit::NotJudged),
    },
    Scenario {
        number: 20,
        name: "clocks fall",
        quick: &[],
        set: slow_clocks,
        hit: Hit::Anywhere,
        classes: &["gpu.throttle"],
        culprit: Culprit::NotJudged,
        explained: true,
        torch: OnTorch::First(&["gpu.throttle"], Culprit::NotJudged),
    },
    Scenario {
        number: 21,
        name: "Xid",
        quick: &[],
        set: xid,
        hit: Hit::Anywhere,
        classes: &["gpu.error"],
        culprit: Culprit::NotJudged,
        explained: true,
        torch: OnTorch::First(&["gpu.error"], Culprit::NotJudged),
    },
    Scenario {
        number: 22,
        name: "another process in the driver",
        quick: &[Program::Own],
        set: monitored,
        hit: Hit::Op("cuLaunchKernel"),
        classes: &["driver.contention"],
        culprit: Culprit::Them,
        explained: true,
        torch: OnTorch::First(&["driver.contention"], Culprit::Them),
    },
    Scenario {
        number: 23,
        name: "two faults at once: CPU taken, GPU busy",
        quick: &[],
        set: busy_and_taken,
        hit: Hit::Op("cudaStreamSynchronize"),
        classes: &["cpu.preempted", "gpu.wait"],
        culprit: Culprit::Them,
        explained: true,
        torch: OnTorch::First(&["cpu.preempted", "gpu.wait"], Culprit::Them),
    },
];

/// The first launch of a process loads what it runs; or modules are loaded, and compiled, by name.
fn cold(draw: &mut Draw, program: Program) -> Setup {
    let cold_us = draw.between(60_000, 600_000);
    let by_name = draw.between(0, 1) == 1;
    // PyTorch's start is never without.
    let usual: &[_] = match program {
        Program::Own => &[],
        Program::Torch => &["SIMGPU_MODULE_US", "SIMGPU_COLD_US"],
    };
    let variables: &[&str] =
        if by_name { &["SIMGPU_MODULE_US", "SIMGPU_JIT_US"] } else { &["SIMGPU_COLD_US"] };
    Setup {
        words: match by_name && program == Program::Own {
            true => words(&format!("coldstart --launches {}", draw.between(1_000, 20_000))),
            false => train(program, 2, launches(draw, program, 5, 50), draw.between(5, 50)),
        },
        env: usual.iter().map(|name| (*name, draw.between(1_000, 10_000).to_string())).collect(),
        fault: Fault {
            env: variables.iter().map(|name| (*name, cold_us.to_string())).collect(),
            ..Fault::default()
        },
        ..Setup::default()
    }
}

/// A loop that waits for the GPU in each step, by itself or for its loss.
fn waiting(program: Program, seconds: u64, launches: u64, kernel_us: u64) -> Vec<String> {
    let item = if program == Program::Torch { "--item-every 1" } else { "" };
    [train(program, seconds, launches.max(least_launches(program)), kernel_us), words(item)].concat()
}

/// Kernels that take long; the thread spins or blocks meanwhile.
fn busy(draw: &mut Draw, program: Program) -> Setup {
    let (launches, kernel_us) = (draw.between(2, 10), draw.between(1_000, 8_000));
    let sync = draw.one_of(&["spin", "block"]);
    Setup {
        words: waiting(program, 2, launches, draw.between(2, 10)),
        env: vec![("SIMGPU_SYNC", sync.into())],
        fault: Fault { words: words(&format!("--kernel-us {kernel_us}")), ..Fault::default() },
        ..Setup::default()
    }
}

/// A GPU that NVML tells of.
fn watched(draw: &mut Draw, program: Program, fault: Vec<(&'static str, String)>) -> Setup {
    Setup {
        words: train(program, 4, launches(draw, program, 5, 20), draw.between(100, 1_000)),
        env: vec![
            ("LD_LIBRARY_PATH", sim().display().to_string()),
            ("SIMGPU_NVML_SM_PCT", draw.between(40, 99).to_string()),
            ("SIMGPU_NVML_TEMPERATURE", draw.between(40, 90).to_string()),
        ],
        fault: Fault { env: fault, ..Fault::default() },
        ..Setup::default()
    }
}

fn slow_clocks(draw: &mut Draw, program: Program) -> Setup {
    // hw_slowdown, sw_thermal, hw_thermal, hw_power_brake: bits of NVML.
    let reason = draw.one_of(&[0x8_u64, 0x20, 0x40, 0x80]);
    let clock = draw.between(600, 1_700);
    watched(
        draw,
        program,
        vec![("SIMGPU_NVML_THROTTLE", reason.to_string()), ("SIMGPU_NVML_SM_CLOCK", clock.to_string())],
    )
}

fn xid(draw: &mut Draw, program: Program) -> Setup {
    let code = draw.one_of(&[13_u64, 31, 48, 63, 74, 79, 94, 119]);
    watched(draw, program, vec![("SIMGPU_NVML_XID", code.to_string())])
}

/// A device whose ioctls take turns stands in for the driver; launches make one each.
fn monitored(draw: &mut Draw, program: Program) -> Setup {
    let neighbour =
        |number: u64| Neighbour { words: words(&format!("monitor --name scraper-{number}")), nice: 0 };
    Setup {
        words: match program {
            Program::Own => words(&format!("hold --for driver --rounds {}", draw.between(4_000, 8_000))),
            Program::Torch => {
                [train(program, 2, launches(draw, program, 5, 20), draw.between(5, 50)), words("--driver")]
                    .concat()
            }
        },
        flags: words("--driver-device /dev/net/tun"),
        fault: Fault { neighbours: vec![neighbour(draw.between(1, 9))], ..Fault::default() },
        ..Setup::default()
    }
}

/// Who waits for the GPU spins, and so can be kept from the CPU: by two neighbours for most of the time, or by one of lower
/// priority for a part of it.
fn busy_and_taken(draw: &mut Draw, program: Program) -> Setup {
    let kernel_us = draw.between(1_000, 6_000);
    let mostly_taken = draw.between(0, 1) == 0;
    let (neighbours, order) = match mostly_taken {
        true => (
            (0..2).map(|number| hog(0, &format!("greedy-{number}"), 0)).collect(),
            ["cpu.preempted", "gpu.wait"],
        ),
        false => (vec![hog(0, "modest", draw.between(6, 8))], ["gpu.wait", "cpu.preempted"]),
    };
    Setup {
        words: waiting(program, 3, draw.between(2, 8), draw.between(2, 10)),
        fault: Fault {
            words: words(&format!("--kernel-us {kernel_us}")),
            neighbours,
            order: order.to_vec(),
            ..Fault::default()
        },
        ..Setup::default()
    }
}
