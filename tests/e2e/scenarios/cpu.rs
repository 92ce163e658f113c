//! The CPU: taken by one or by many, limited by a quota, or spent by the library itself.

use super::draw::Draw;
use super::setup::{Fault, Limit, Setup, hog, launches, train, words};
use super::{BOTH, Culprit, Hit, OnTorch, Program, Scenario};

pub(super) const SCENARIOS: &[Scenario] = &[
    Scenario {
        number: 1,
        name: "CPU taken by a neighbour",
        quick: BOTH,
        set: one_neighbour,
        hit: Hit::Anywhere,
        classes: &["cpu.preempted"],
        culprit: Culprit::Them,
        explained: true,
        torch: OnTorch::First(&["cpu.preempted"], Culprit::Them),
    },
    Scenario {
        number: 2,
        name: "many neighbours, none dominant",
        quick: &[],
        set: many_neighbours,
        hit: Hit::Anywhere,
        classes: &["cpu.preempted"],
        culprit: Culprit::Several,
        explained: true,
        torch: OnTorch::First(&["cpu.preempted"], Culprit::Several),
    },
    Scenario {
        number: 3,
        name: "cgroup quota",
        quick: &[],
        set: quota,
        hit: Hit::Anywhere,
        classes: &["cpu.throttled"],
        culprit: Culprit::NotJudged,
        explained: true,
        torch: OnTorch::First(&["cpu.throttled"], Culprit::NotJudged),
    },
    Scenario {
        number: 24,
        name: "nothing wrong, noisy host",
        quick: BOTH,
        set: noisy_host,
        hit: Hit::Anywhere,
        classes: &[],
        culprit: Culprit::NotJudged,
        explained: false,
        torch: OnTorch::First(&[], Culprit::NotJudged),
    },
    Scenario {
        number: 25,
        name: "slow for a reason nobody probes",
        quick: &[Program::Own],
        set: burning_library,
        hit: Hit::Op("cuLaunchKernel"),
        classes: &["unknown", "cpu.self"],
        culprit: Culprit::Unprivileged,
        explained: false,
        torch: OnTorch::First(&["unknown", "cpu.self"], Culprit::Unprivileged),
    },
];

/// A thread that launches and waits, or one that only launches; on the first CPU.
fn pinned(draw: &mut Draw, program: Program) -> Setup {
    let seconds = draw.between(2, 3);
    let launches = launches(draw, program, 10, 80);
    // A GPU that is always busy hides what is taken from threads that only launch.
    let kernel_us = if program == Program::Torch { draw.between(1, 10) } else { draw.between(5, 50) };
    let spin_ns = draw.between(5_000, 40_000).to_string();
    let launch = format!("launch --cpu 0 --launches {}", seconds * 20_000);
    let only_launches = program == Program::Own && draw.between(0, 1) == 1;
    match only_launches {
        false => Setup {
            words: [train(program, seconds, launches, kernel_us), words("--cpu 0")].concat(),
            ..Setup::default()
        },
        true => {
            Setup { words: words(&launch), env: vec![("SIMGPU_LAUNCH_SPIN_NS", spin_ns)], ..Setup::default() }
        }
    }
}

fn one_neighbour(draw: &mut Draw, program: Program) -> Setup {
    let fault = Fault {
        neighbours: vec![hog(0, draw.one_of(&["greedy", "backup", "compile"]), 0)],
        ..Fault::default()
    };
    Setup { fault, ..pinned(draw, program) }
}

fn many_neighbours(draw: &mut Draw, program: Program) -> Setup {
    let neighbours =
        (0..draw.between(6, 10)).map(|number| hog(number % 2, &format!("worker-{number}"), 0)).collect();
    Setup { fault: Fault { neighbours, ..Fault::default() }, ..pinned(draw, program) }
}

fn quota(draw: &mut Draw, program: Program) -> Setup {
    let percent = draw.between(10, 50);
    let period_us = draw.one_of(&[20_000, 50_000, 100_000]);
    let quota_us = period_us * percent / 100;
    let limit = Limit {
        controller: "cpu",
        // In a cgroup of its own it has to go before the rest of the host, too.
        version_1: vec![
            ("cpu.shares", "262144".into()),
            ("cpu.cfs_period_us", period_us.to_string()),
            ("cpu.cfs_quota_us", quota_us.to_string()),
        ],
        version_2: vec![("cpu.weight", "10000".into()), ("cpu.max", format!("{quota_us} {period_us}"))],
    };
    Setup { fault: Fault { limit: Some(limit), ..Fault::default() }, ..pinned(draw, program) }
}

/// Neighbours that are busy where the workload is not.
fn noisy_host(draw: &mut Draw, program: Program) -> Setup {
    let neighbours = (0..draw.between(1, 3)).map(|number| hog(1, &format!("busy-{number}"), 0)).collect();
    Setup { fault: Fault { neighbours, ..Fault::default() }, ..pinned(draw, program) }
}

/// The library computes inside the call, and nothing tells why.
fn burning_library(draw: &mut Draw, program: Program) -> Setup {
    let spin_us = draw.between(500, 5_000);
    Setup {
        words: match program {
            Program::Own => words(&format!("launch --launches {}", 2_500_000 / spin_us)),
            Program::Torch => train(program, 2, draw.between(12, 48), draw.between(5, 50)),
        },
        fault: Fault {
            env: vec![("SIMGPU_LAUNCH_SPIN_NS", (spin_us * 1_000).to_string())],
            ..Fault::default()
        },
        ..Setup::default()
    }
}
