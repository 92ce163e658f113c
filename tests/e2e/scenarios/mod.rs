//! The accuracy suite: faults that are injected, and whether `explain` names them. Each scenario is tried with random
//! parameters, and each time its twin without the fault is run beside it. The numbers are those of the list of faults that
//! the tool is measured by; from 26 on they are of its table of real programs.
//!
//! A scenario is played on two programs: one that is made for it, and one in the shape of PyTorch's, where faults are reached
//! through threads and processes that wait for each other.
//!
//! A test run tries one set of parameters of the scenarios that are cheap. `make accuracy` tries all with many sets and writes
//! the table to `docs/measurements`. `GPUWHY_SEED` makes a run come again, `GPUWHY_SCENARIOS=1,4` picks
//! some, `GPUWHY_PROGRAM=torch` (or `own`) one program, and `GPUWHY_KEEP` names a folder in which the traces stay.

mod cpu;
mod draw;
mod gpu;
mod judge;
mod loader;
mod lock;
mod memory;
mod network;
mod rank;
mod report;
mod setup;
mod stillness;
mod work;

use crate::support::{alone, can_trace, skip};
use draw::Draw;
use report::{Outcome, Report};
use setup::{Played, Setup};
use stillness::Stillness;

pub(crate) struct Scenario {
    number: u32,
    name: &'static str,
    /// Where it is cheap and steady enough for every test run.
    quick: &'static [Program],
    set: fn(&mut Draw, Program) -> Setup,
    hit: Hit,
    /// Any of these is right; none where nothing is wrong.
    classes: &'static [&'static str],
    culprit: Culprit,
    /// Whether the cause has to explain most of the excess: not where nobody can know it.
    explained: bool,
    torch: OnTorch,
}

/// What a fault is injected into.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Program {
    /// One made for the scenario.
    Own,
    /// A training loop in the shape of PyTorch's: forward in the main thread, backward in another, batches from a worker
    /// process, and nothing that waits for the GPU.
    Torch,
}

/// Cheap on both programs.
const BOTH: &[Program] = &[Program::Own, Program::Torch];

/// What is right on a program in the shape of PyTorch's. There the first finding counts, whatever operation it is about.
#[derive(Clone, Copy)]
enum OnTorch {
    /// The class at the end of the path, and who is there.
    First(&'static [&'static str], Culprit),
    /// The same of the first finding of its start: the loop is clean.
    AtStart(&'static [&'static str]),
    /// It is played on no other program.
    Only,
    /// It is not played there, because of this.
    Not(&'static str),
}

/// What has to be said of a scenario on one program.
struct Right {
    hit: Hit,
    classes: &'static [&'static str],
    culprit: Culprit,
}

impl Program {
    fn name(self) -> &'static str {
        match self {
            Program::Own => "own",
            Program::Torch => "torch",
        }
    }
}

impl Scenario {
    /// Nothing where it is not played on that program.
    fn right(&self, program: Program) -> Option<Right> {
        let Scenario { hit, classes, culprit, .. } = *self;
        match (program, self.torch) {
            (Program::Own, OnTorch::Only) | (Program::Torch, OnTorch::Not(_)) => None,
            (Program::Torch, OnTorch::First(classes, culprit)) => {
                Some(Right { hit: Hit::Anywhere, classes, culprit })
            }
            (Program::Torch, OnTorch::AtStart(classes)) => {
                Some(Right { hit: Hit::Start, classes, culprit: Culprit::NotJudged })
            }
            (Program::Own, _) | (Program::Torch, OnTorch::Only) => Some(Right { hit, classes, culprit }),
        }
    }
}

/// Where the fault shows.
#[derive(Clone, Copy)]
enum Hit {
    Op(&'static str),
    /// Whichever of them comes first.
    OneOf(&'static [&'static str]),
    Between,
    /// Before the loop.
    Start,
    Anywhere,
}

/// Who has to be named for the first cause.
#[derive(Clone, Copy)]
enum Culprit {
    /// The one that was set up as such, before all others.
    Them,
    /// Three of them at least.
    Several,
    Unprivileged,
    /// There is none.
    NotJudged,
}

/// The tables of all files.
fn scenarios() -> impl Iterator<Item = &'static Scenario> {
    let tables = [
        cpu::SCENARIOS,
        gpu::SCENARIOS,
        loader::SCENARIOS,
        lock::SCENARIOS,
        memory::SCENARIOS,
        network::SCENARIOS,
        rank::SCENARIOS,
        work::SCENARIOS,
    ];
    let mut all: Vec<&Scenario> = tables.into_iter().flatten().collect();
    all.sort_by_key(|scenario| scenario.number);
    all.into_iter()
}

fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable} is a number, not '{text}'")))
}

fn chosen() -> Option<Vec<u32>> {
    let text = std::env::var("GPUWHY_SCENARIOS").ok()?;
    Some(text.split(',').map(|number| number.trim().parse().unwrap()).collect())
}

/// With the fault and without it; or what the host lacks.
fn play(
    scenario: &Scenario,
    program: Program,
    right: &Right,
    seed: u64,
    run: u32,
) -> Result<Outcome, String> {
    let mut setup = (scenario.set)(&mut Draw::new(seed, scenario.number, run), program);
    setup.counted = program == Program::Torch;
    let played = setup.play(true)?;
    keep(&played, scenario, program, run, "fault");
    let verdict = judge::judge(right, &played, &judge::findings(&played));
    drop(played);
    let twin = setup.play(false)?;
    keep(&twin, scenario, program, run, "twin");
    let serious = judge::findings(&twin).into_iter().filter(judge::is_serious);
    let (noise, alarms): (Vec<_>, Vec<_>) =
        serious.partition(|finding| judge::names_a_visitor(&twin, finding));
    let in_short = |findings: Vec<_>| findings.iter().map(judge::in_short).collect();
    let (noise, alarms) = (in_short(noise), in_short(alarms));
    Ok(Outcome { run, words: setup.in_short(), verdict, alarms, noise })
}

fn today() -> String {
    let output = std::process::Command::new("date").args(["-u", "+%F"]).output().unwrap();
    String::from_utf8_lossy(&output.stdout).trim().to_string()
}

/// For whoever wants to know why something else was said.
fn keep(played: &Played, scenario: &Scenario, program: Program, run: u32, what: &str) {
    if let Some(folder) = std::env::var_os("GPUWHY_KEEP") {
        let name = format!("{}-{}-{run}-{what}.db", scenario.number, program.name());
        std::fs::copy(played.trace.file(), std::path::Path::new(&folder).join(name)).unwrap();
    }
}

#[test]
fn faults_are_named_and_nobody_else() {
    const TEST: &str = "faults_are_named_and_nobody_else";
    // The day of writing; what is drawn from it is as good as anything.
    const SEED: u64 = 20_261_115;
    if !can_trace(TEST) {
        return;
    }
    let _turn = alone();
    let _still = Stillness::keep();
    let seed = number("GPUWHY_SEED").unwrap_or(SEED);
    let runs = number("GPUWHY_RUNS");
    let chosen = chosen();
    eprintln!("GPUWHY_SEED={seed}");
    let mut report = Report::new(seed);
    let only = std::env::var("GPUWHY_PROGRAM").ok();
    let is_wanted = |scenario: &Scenario, program: Program| {
        only.as_ref().is_none_or(|only| only == program.name())
            && match &chosen {
                Some(numbers) => numbers.contains(&scenario.number),
                None => runs.is_some() || scenario.quick.contains(&program),
            }
    };
    let plays = scenarios().flat_map(|scenario| BOTH.iter().map(move |program| (scenario, *program)));
    for (scenario, program) in plays.filter(|(scenario, program)| is_wanted(scenario, *program)) {
        let Some(right) = scenario.right(program) else {
            report.leaves_out(scenario);
            continue;
        };
        for run in 0..runs.unwrap_or(1) as u32 {
            match play(scenario, program, &right, seed, run) {
                Ok(outcome) => report.add(scenario, program, outcome),
                Err(missing) => {
                    let name = format!("{TEST}, {} ({}, {})", scenario.name, scenario.number, program.name());
                    skip(&name, missing.trim());
                    report.missing(scenario, program, missing.trim());
                    break;
                }
            }
        }
    }
    eprintln!("{}", report.text());
    if let Some(path) = std::env::var_os("GPUWHY_ACCURACY") {
        let head = format!("# Accuracy: injected faults and what was said of them, {}\n\n", today());
        std::fs::write(path, head + &report.text()).unwrap();
    }
    report.assert_holds();
}
