//! The CPU: taken by one or by many, limited by a quota, or spent by the library itself.

use super::draw::Draw;
use super::setup::{Fault, Limit, Setup, hog, words};
use super::{Culprit, Hit, Scenario};

pub(super) const SCENARIOS: &[Scenario] = &[
    Scenario {
        number: 1,
        name: "CPU taken by a neighbour",
        quick: true,
        set: one_neighbour,
        hit: Hit::Anywhere,
        classes: &["cpu.preempted"],
        culprit: Culprit::Them,
        explained: true,
    },
    Scenario {
        number: 2,
        name: "many neighbours, none dominant",
        quick: false,
        set: many_neighbours,
        hit: Hit::Anywhere,
        classes: &["cpu.preempted"],
        culprit: Culprit::Several,
        explained: true,
    },
    Scenario {
        number: 3,
        name: "cgroup quota",
        quick: false,
        set: quota,
        hit: Hit::Anywhere,
        classes: &["cpu.throttled"],
        culprit: Culprit::NotJudged,
        explained: true,
    },
    Scenario {
        number: 24,
        name: "nothing wrong, noisy host",
        quick: true,
        set: noisy_host,
        hit: Hit::Anywhere,
        classes: &[],
        culprit: Culprit::NotJudged,
        explained: false,
    },
    Scenario {
        number: 25,
        name: "slow for a reason nobody probes",
        quick: true,
        set: burning_library,
        hit: Hit::Op("cuLaunchKernel"),
        classes: &["unknown", "cpu.self"],
        culprit: Culprit::Nobody,
        explained: false,
    },
];

/// A thread that launches and waits, or one that only launches; on the first CPU.
fn pinned(draw: &mut Draw) -> Setup {
    let seconds = draw.between(2, 3);
    let (launches, kernel_us) = (draw.between(10, 80), draw.between(5, 50));
    let train = format!(
        "train --cpu 0 --steps 0 --seconds {seconds} --launches-per-step {launches} --kernel-us {kernel_us}"
    );
    let spin_ns = draw.between(5_000, 40_000).to_string();
    let launch = format!("launch --cpu 0 --launches {}", seconds * 20_000);
    match draw.between(0, 1) {
        0 => Setup { words: words(&train), ..Setup::default() },
        _ => {
            Setup { words: words(&launch), env: vec![("SIMGPU_LAUNCH_SPIN_NS", spin_ns)], ..Setup::default() }
        }
    }
}

fn one_neighbour(draw: &mut Draw) -> Setup {
    let fault = Fault {
        neighbours: vec![hog(0, draw.one_of(&["greedy", "backup", "compile"]), 0)],
        ..Fault::default()
    };
    Setup { fault, ..pinned(draw) }
}

fn many_neighbours(draw: &mut Draw) -> Setup {
    let neighbours =
        (0..draw.between(6, 10)).map(|number| hog(number % 2, &format!("worker-{number}"), 0)).collect();
    Setup { fault: Fault { neighbours, ..Fault::default() }, ..pinned(draw) }
}

fn quota(draw: &mut Draw) -> Setup {
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
    Setup { fault: Fault { limit: Some(limit), ..Fault::default() }, ..pinned(draw) }
}

/// Neighbours that are busy where the workload is not.
fn noisy_host(draw: &mut Draw) -> Setup {
    let neighbours = (0..draw.between(1, 3)).map(|number| hog(1, &format!("busy-{number}"), 0)).collect();
    Setup { fault: Fault { neighbours, ..Fault::default() }, ..pinned(draw) }
}

/// The library computes inside the call, and nothing tells why.
fn burning_library(draw: &mut Draw) -> Setup {
    let spin_us = draw.between(500, 5_000);
    let launches = 2_500_000 / spin_us;
    Setup {
        words: words(&format!("launch --launches {launches}")),
        fault: Fault {
            env: vec![("SIMGPU_LAUNCH_SPIN_NS", (spin_us * 1_000).to_string())],
            ..Fault::default()
        },
        ..Setup::default()
    }
}
