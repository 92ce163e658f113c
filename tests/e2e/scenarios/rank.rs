//! Ranks: one that is late, one that never comes, one that calls something else.

use super::draw::Draw;
use super::setup::{Fault, Played, Setup, Who, words};
use super::stillness::everywhere;
use super::{Culprit, Hit, OnTorch, Program, Scenario};
use crate::collectives::Ranks;
use crate::support::{Running, Trace};
use std::time::Duration;

pub(super) const SCENARIOS: &[Scenario] = &[
    Scenario {
        number: 16,
        name: "slow peer",
        quick: &[],
        set: late,
        hit: Hit::Op("ncclAllReduce"),
        classes: &["rank.straggler"],
        culprit: Culprit::Them,
        explained: true,
        torch: OnTorch::Not(RANKS),
    },
    Scenario {
        number: 17,
        name: "missing rank",
        quick: &[],
        set: missing,
        hit: Hit::Op("ncclAllReduce"),
        classes: &["rank.hang"],
        culprit: Culprit::Them,
        explained: true,
        torch: OnTorch::Not(RANKS),
    },
    Scenario {
        number: 18,
        name: "mismatched collective",
        quick: &[],
        set: mismatch,
        hit: Hit::Op("ncclAllReduce"),
        classes: &["rank.hang"],
        culprit: Culprit::Them,
        explained: true,
        torch: OnTorch::Not(RANKS),
    },
];

/// Why they have a program of their own.
const RANKS: &str = "the fault is of a communicator, which takes several ranks and another library";

/// A communicator of which one rank is given the fault's words.
fn communicator(draw: &mut Draw, ranks: u64, options: &str, fault: &str) -> Setup {
    let odd = draw.between(0, ranks - 1) as usize;
    Setup {
        words: words(options),
        fault: Fault { words: words(fault), ..Fault::default() },
        stage: Some(Box::new(move |setup, faulty| Ok(play(setup, ranks as usize, odd, faulty)))),
        ..Setup::default()
    }
}

fn late(draw: &mut Draw, _: Program) -> Setup {
    let (step_us, late_us) = (draw.between(3_000, 6_000), draw.between(3_000, 12_000));
    // So long without the fault, too, that waiting at the gate is nothing beside it.
    let iterations = 1_500_000 / step_us;
    let ranks = draw.between(2, 3);
    communicator(
        draw,
        ranks,
        &format!("--iters {iterations} --kernel-us {step_us} --count {}", 1 << (8 + iterations % 8)),
        &format!("--late-us {late_us}"),
    )
}

fn missing(draw: &mut Draw, _: Program) -> Setup {
    let iterations = draw.between(100, 300);
    let stop_at = draw.between(2, iterations - 1);
    let ranks = draw.between(2, 3);
    communicator(
        draw,
        ranks,
        &format!("--iters {iterations} --kernel-us 1000"),
        &format!("--stop-at {stop_at}"),
    )
}

fn mismatch(draw: &mut Draw, _: Program) -> Setup {
    let iterations = draw.between(50, 300);
    let other = draw.one_of(&["", "--mismatch-op allgather", "--mismatch-op broadcast"]);
    // Of two nobody can say which one is wrong.
    let ranks = 3;
    let at = draw.between(2, iterations - 1);
    communicator(
        draw,
        ranks,
        &format!("--iters {iterations} --kernel-us {}", 1_000_000 / iterations),
        &format!("--mismatch-at {at} {other}"),
    )
}

/// Nobody ends by himself.
fn hangs(words: &[String]) -> bool {
    words.iter().any(|word| word == "--stop-at" || word == "--mismatch-at")
}

fn play(setup: &Setup, ranks: usize, odd: usize, faulty: bool) -> Played {
    let trace = Trace::new();
    let stop = trace.folder.path().join("stop");
    let mut options: Vec<&str> = setup.words.iter().map(String::as_str).collect();
    let stop_file = stop.display().to_string();
    options.extend(["--stop-file", &stop_file]);
    let fault = if faulty { &setup.fault.words[..] } else { &[] };
    // There may be more ranks than CPUs: those that wait do not spin.
    let ranks = everywhere(|| {
        Ranks::start_with(ranks, &options, &[("SIMGPU_SYNC", "block")], |rank| match rank == odd {
            true => fault.to_vec(),
            false => Vec::new(),
        })
    });
    let victims = ranks.pids();
    let pids: Vec<String> = victims.iter().map(u32::to_string).collect();
    let flags: Vec<&str> = pids.iter().flat_map(|pid| ["--pid", pid]).collect();
    let mut running = Running::start(&trace, &flags);
    let tracer = running.child.id();
    ranks.open();
    if faulty && hangs(&setup.fault.words) {
        // As long as somebody would look at it before he kills it.
        std::thread::sleep(Duration::from_secs(5));
        running.stop();
        drop(ranks);
    } else {
        ranks.finish();
        running.until_ended(&victims);
        running.stop();
    }
    Played { trace, victims, helpers: vec![tracer], culprits: vec![Who::Rank(odd as i32)], order: Vec::new() }
}
