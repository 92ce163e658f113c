//! What a program in the shape of PyTorch's waits for that others have not: its worker process, and itself.

use super::draw::Draw;
use super::setup::{Fault, Setup, Who, launches, train, words};
use super::{Culprit, Hit, OnTorch, Program, Scenario};

pub(super) const SCENARIOS: &[Scenario] = &[
    Scenario {
        number: 26,
        name: "worker of the data loader computes",
        quick: &[Program::Torch],
        set: computing_worker,
        hit: Hit::Anywhere,
        classes: &["cpu.self"],
        culprit: Culprit::Them,
        explained: true,
        torch: OnTorch::Only,
    },
    Scenario {
        number: 27,
        name: "worker of the data loader sleeps",
        quick: &[Program::Torch],
        set: sleeping_worker,
        hit: Hit::Anywhere,
        classes: &["self.sleep"],
        culprit: Culprit::Them,
        explained: true,
        torch: OnTorch::Only,
    },
    Scenario {
        number: 28,
        name: "the loop sleeps",
        quick: &[],
        set: sleeping_loop,
        hit: Hit::Anywhere,
        classes: &["self.sleep"],
        culprit: Culprit::Them,
        explained: true,
        torch: OnTorch::Only,
    },
    Scenario {
        number: 29,
        name: "one stall in a good run",
        quick: &[],
        set: stall,
        hit: Hit::Anywhere,
        classes: &["self.sleep"],
        culprit: Culprit::Them,
        explained: true,
        torch: OnTorch::Only,
    },
];

/// The process that prepares batches.
pub(super) fn worker() -> Who {
    Who::Comm("pt_data_worker".into())
}

fn with_fault(draw: &mut Draw, program: Program, fault: &str, culprit: Who) -> Setup {
    Setup {
        words: train(program, 2, launches(draw, program, 5, 50), draw.between(1, 10)),
        fault: Fault { words: words(fault), culprit: Some(culprit), ..Fault::default() },
        ..Setup::default()
    }
}

fn computing_worker(draw: &mut Draw, program: Program) -> Setup {
    let fault = format!("--worker-us {}", draw.between(8_000, 40_000));
    let mut setup = with_fault(draw, program, &fault, worker());
    // On the same CPU it would be in the way of what it works for as well.
    setup.words.extend(words("--worker-cpu 1"));
    setup
}

fn sleeping_worker(draw: &mut Draw, program: Program) -> Setup {
    let fault = format!("--worker-sleep-us {}", draw.between(8_000, 40_000));
    with_fault(draw, program, &fault, worker())
}

fn sleeping_loop(draw: &mut Draw, program: Program) -> Setup {
    let fault = format!("--sleep-us {}", draw.between(3_000, 40_000));
    with_fault(draw, program, &fault, Who::Own)
}

fn stall(draw: &mut Draw, program: Program) -> Setup {
    let fault = format!("--stall-ms {}", draw.between(300, 1_200));
    with_fault(draw, program, &fault, Who::Own)
}
