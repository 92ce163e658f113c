//! Locks: of the library, and Python's.

use super::draw::Draw;
use super::setup::{Fault, Setup, Who, least_launches, train, words};
use super::{BOTH, Culprit, Hit, OnTorch, Program, Scenario};

pub(super) const SCENARIOS: &[Scenario] = &[
    Scenario {
        number: 4,
        name: "lock held by a sibling thread",
        quick: BOTH,
        set: sibling,
        hit: Hit::Op("cuLaunchKernel"),
        classes: &["lock.futex"],
        culprit: Culprit::Them,
        explained: true,
        // The holder sleeps: there the path ends.
        torch: OnTorch::First(&["self.sleep", "lock.futex"], Culprit::Them),
    },
    Scenario {
        number: 5,
        name: "Python's GIL",
        quick: &[],
        set: gil,
        hit: Hit::Anywhere,
        classes: &["python.gil"],
        culprit: Culprit::Them,
        explained: true,
        torch: OnTorch::Not("the lock is that of an interpreter, which this program has not"),
    },
];

fn sibling(draw: &mut Draw, program: Program) -> Setup {
    let hold_us = draw.between(5_000, 30_000);
    let (launches, kernel_us) = (draw.between(1, 10), draw.between(5, 100));
    Setup {
        words: train(program, 2, launches.max(least_launches(program)), kernel_us),
        fault: Fault {
            env: vec![("SIMGPU_LOCK_HOLD_NS", (hold_us * 1_000).to_string())],
            culprit: Some(Who::Comm("simgpu-holder".into())),
            ..Fault::default()
        },
        ..Setup::default()
    }
}

/// A thread that computes in Python beside the one that launches.
fn gil(draw: &mut Draw, _: Program) -> Setup {
    let (launches, kernel_us) = (draw.between(5, 50), draw.between(5, 100));
    let options = format!("--steps 0 --seconds 2 --launches-per-step {launches} --kernel-us {kernel_us}");
    let keepers = draw.between(1, 2);
    Setup {
        python: true,
        anywhere: true,
        words: words(&format!("gil --keepers 0 {options}")),
        fault: Fault {
            words: words(&format!("--keepers {keepers}")),
            culprit: Some(Who::Own),
            ..Fault::default()
        },
        ..Setup::default()
    }
}
