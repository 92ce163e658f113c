//! Locks: of the library, and Python's.

use super::draw::Draw;
use super::setup::{Fault, Program, Setup, Who, words};
use super::{Culprit, Hit, Scenario};

pub(super) const SCENARIOS: &[Scenario] = &[
    Scenario {
        number: 4,
        name: "lock held by a sibling thread",
        quick: true,
        set: sibling,
        hit: Hit::Op("cuLaunchKernel"),
        classes: &["lock.futex"],
        culprit: Culprit::Them,
        explained: true,
    },
    Scenario {
        number: 5,
        name: "Python's GIL",
        quick: false,
        set: gil,
        hit: Hit::Anywhere,
        classes: &["python.gil"],
        culprit: Culprit::Them,
        explained: true,
    },
];

fn sibling(draw: &mut Draw) -> Setup {
    let hold_us = draw.between(5_000, 30_000);
    let (launches, kernel_us) = (draw.between(1, 10), draw.between(5, 100));
    Setup {
        words: words(&format!(
            "train --steps 0 --seconds 2 --launches-per-step {launches} --kernel-us {kernel_us}"
        )),
        fault: Fault {
            env: vec![("SIMGPU_LOCK_HOLD_NS", (hold_us * 1_000).to_string())],
            culprit: Some(Who::Comm("simgpu-holder".into())),
            ..Fault::default()
        },
        ..Setup::default()
    }
}

/// A thread that computes in Python beside the one that launches.
fn gil(draw: &mut Draw) -> Setup {
    let (launches, kernel_us) = (draw.between(5, 50), draw.between(5, 100));
    let options = format!("--steps 0 --seconds 2 --launches-per-step {launches} --kernel-us {kernel_us}");
    let keepers = draw.between(1, 2);
    Setup {
        program: Program::Python,
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
