//! The table of what was said of each scenario.

use super::judge::Verdict;
use super::{OnTorch, Program, Scenario};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

/// One run with the fault, and its twin.
pub(super) struct Outcome {
    pub(super) run: u32,
    /// The parameters, as a command line.
    pub(super) words: String,
    pub(super) verdict: Verdict,
    /// Findings of the twin that say that something was taken from it.
    pub(super) alarms: Vec<String>,
    /// The same where the culprit is somebody else on this host, which is no false alarm.
    pub(super) noise: Vec<String>,
}

struct Line {
    name: &'static str,
    explained: bool,
    outcomes: Vec<Outcome>,
}

pub(super) struct Report {
    seed: u64,
    lines: BTreeMap<(u32, Program), Line>,
    missing: Vec<String>,
    left_out: Vec<String>,
}

/// What has to hold, in percent of all runs; of the explained share, in percent of the excess.
const CLASS: f64 = 95.0;
const CULPRIT: f64 = 90.0;
const QUIET: f64 = 95.0;
const EXPLAINED: f64 = 70.0;

fn percent(part: usize, whole: usize) -> f64 {
    100.0 * part as f64 / whole.max(1) as f64
}

fn counted(outcomes: &[Outcome], is: impl Fn(&&Outcome) -> bool) -> usize {
    outcomes.iter().filter(is).count()
}

impl Line {
    /// Mean and least share of the excess that was explained, of the runs that named the class.
    fn explained(&self) -> Option<(f64, f64)> {
        let shares: Vec<f64> = self
            .outcomes
            .iter()
            .filter(|outcome| outcome.verdict.class && self.explained)
            .map(|outcome| outcome.verdict.explained_pct)
            .collect();
        let least = shares.iter().copied().reduce(f64::min)?;
        Some((shares.iter().sum::<f64>() / shares.len() as f64, least))
    }
}

impl Report {
    pub(super) fn new(seed: u64) -> Report {
        Report { seed, lines: BTreeMap::new(), missing: Vec::new(), left_out: Vec::new() }
    }

    pub(super) fn add(&mut self, scenario: &Scenario, program: Program, outcome: Outcome) {
        let verdict = &outcome.verdict;
        eprintln!(
            "{:>2} {} {} {}: class {}, culprit {}, {:.0}% explained, {} false alarms; {}",
            scenario.number,
            program.name(),
            scenario.name,
            outcome.run,
            verdict.class,
            verdict.culprit,
            verdict.explained_pct,
            outcome.alarms.len(),
            verdict.message
        );
        outcome.alarms.iter().for_each(|alarm| eprintln!("   false alarm: {alarm}"));
        let line = self.lines.entry((scenario.number, program)).or_insert(Line {
            name: scenario.name,
            explained: scenario.explained,
            outcomes: Vec::new(),
        });
        line.outcomes.push(outcome);
    }

    pub(super) fn missing(&mut self, scenario: &Scenario, program: Program, missing: &str) {
        self.missing.push(format!("{} ({}, {}): {missing}", scenario.name, scenario.number, program.name()));
    }

    /// It is not played on one of the programs.
    pub(super) fn leaves_out(&mut self, scenario: &Scenario) {
        if let OnTorch::Not(why) = scenario.torch {
            self.left_out.push(format!("{} ({}): {why}", scenario.name, scenario.number));
        }
    }

    /// Shares of all runs on a program: class, culprit, quiet twins, and runs that are explained where that is asked for.
    fn totals(&self, program: Program) -> [f64; 4] {
        let lines = || self.lines.iter().filter(move |((_, of), _)| *of == program);
        let all = || lines().flat_map(|(_, line)| line.outcomes.iter().map(move |one| (line, one)));
        let count = all().count();
        let is = |what: fn(&Line, &Outcome) -> bool| all().filter(|(line, one)| what(line, one)).count();
        let asked = is(|line, _| line.explained);
        let explained = is(|line, one| line.explained && one.verdict.explained_pct >= EXPLAINED);
        [
            percent(is(|_, one| one.verdict.class), count),
            percent(is(|_, one| one.verdict.culprit), count),
            percent(is(|_, one| one.alarms.is_empty()), count),
            if asked == 0 { 100.0 } else { percent(explained, asked) },
        ]
    }

    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        let mut line = |words: String| writeln!(text, "{words}").unwrap();
        line(format!("Seed {}. {}.\n", self.seed, machine()));
        line("| # | scenario | program | runs | class right | culprit right | explained, mean / least | twins with a false alarm |".into());
        line("|---|---|---|---|---|---|---|---|".into());
        for ((number, program), row) in &self.lines {
            let outcomes = &row.outcomes;
            line(format!(
                "| {number} | {} | {} | {} | {} | {} | {} | {} |",
                row.name,
                program.name(),
                outcomes.len(),
                counted(outcomes, |one| one.verdict.class),
                counted(outcomes, |one| one.verdict.culprit),
                row.explained().map_or_else(String::new, |(mean, least)| format!("{mean:.0}% / {least:.0}%")),
                counted(outcomes, |one| !one.alarms.is_empty()),
            ));
        }
        line(String::new());
        for program in self.programs() {
            let [class, culprit, quiet, explained] = self.totals(program);
            line(format!(
                "Of all runs on `{}`: class right {class:.1}% (wanted {CLASS}%), culprit right {culprit:.1}% (wanted {CULPRIT}%), \
                 no false alarm in the twin {quiet:.1}% (wanted {QUIET}%), {EXPLAINED}% or more explained in {explained:.1}% of \
                 the runs of which that is asked.\n",
                program.name()
            ));
        }
        for ((number, program), row) in &self.lines {
            let name = format!("{} ({number}, {}", row.name, program.name());
            for one in &row.outcomes {
                let verdict = &one.verdict;
                let explained = !row.explained || verdict.explained_pct >= EXPLAINED;
                if !(verdict.class && verdict.culprit && explained) {
                    line(format!(
                        "- Missed: {name}, run {}, `{}`): {}; {:.0}% explained",
                        one.run, one.words, verdict.message, verdict.explained_pct
                    ));
                }
                for alarm in &one.alarms {
                    line(format!(
                        "- False alarm in the twin of {name}, run {}, `{}`): {alarm}",
                        one.run, one.words
                    ));
                }
            }
        }
        let noise: Vec<&String> =
            self.lines.values().flat_map(|row| &row.outcomes).flat_map(|one| &one.noise).collect();
        if !noise.is_empty() {
            line(format!(
                "- The host was not quiet: in {} twins a finding names somebody who is no part of this, as {}",
                noise.len(),
                noise[0]
            ));
        }
        for missing in &self.missing {
            line(format!("- Not tried: {missing}"));
        }
        for why in &self.left_out {
            line(format!("- Not on `torch`: {why}"));
        }
        text
    }

    fn programs(&self) -> BTreeSet<Program> {
        self.lines.keys().map(|(_, program)| *program).collect()
    }

    pub(super) fn assert_holds(&self) {
        let holds = |program: Program| {
            let [class, culprit, quiet, explained] = self.totals(program);
            class >= CLASS && culprit >= CULPRIT && quiet >= QUIET && explained >= CLASS
        };
        assert!(!self.programs().is_empty(), "no scenario was played: {}", self.text());
        assert!(self.programs().into_iter().all(holds), "{}", self.text());
    }
}

fn machine() -> String {
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    // Not those this process may run on: it keeps away from one.
    let cpus = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let cpus = cpus.lines().filter(|line| line.starts_with("processor")).count();
    format!("Linux {}, {cpus} CPUs, simulated GPU", kernel.trim())
}
