//! `gpuwhy demo`: a stall, injected and explained, with no GPU.

mod live;
mod replay;
mod scenario;

use crate::cli::DemoOptions;
use crate::failure::Failure;
use crate::summary::write_coverage;
use gpuwhy_agent::{AgentError, Summary};
use gpuwhy_cause::{Stall, Tallies, stalls};
use gpuwhy_model::units::{count, duration, printable};
use gpuwhy_model::{Coverage, OpInfo, Process};
use scenario::{SCENARIOS, Scenario};
use serde_json::json;
use std::io::Write;
use std::path::{Path, PathBuf};

/// A scenario that was run, one way or the other.
pub(crate) struct Played {
    /// How: live here, or replayed from where.
    pub(crate) how: String,
    pub(crate) live: bool,
    pub(crate) file: PathBuf,
    pub(crate) tallies: Tallies,
    pub(crate) ops: Vec<OpInfo>,
    pub(crate) processes: Vec<Process>,
    pub(crate) coverage: Coverage,
}

impl Played {
    fn from_summary(summary: Summary, how: String) -> Played {
        Played {
            how,
            live: true,
            file: summary.file,
            tallies: summary.last.tallies,
            ops: summary.ops,
            processes: summary.last.processes,
            coverage: summary.last.coverage,
        }
    }
}

pub(crate) fn run(options: &DemoOptions) -> Result<(), Failure> {
    if options.list {
        for scenario in SCENARIOS {
            writeln!(std::io::stdout(), "{:<12} {}", scenario.name, scenario.about)?;
        }
        return Ok(());
    }
    let scenario = choose(options.scenario.as_deref())?;
    let file = options.out.clone().unwrap_or_else(|| {
        std::env::temp_dir().join(format!("gpuwhy-demo-{}-{}.db", scenario.name, std::process::id()))
    });
    if !options.json {
        writeln!(std::io::stdout(), "{}\n", scenario.story)?;
    }
    let played = play(scenario, &file, options)?;
    let stalls = stalls(&played.tallies, &played.ops);
    if options.json {
        let document = json!({
            "scenario": scenario.name,
            "live": played.live,
            "how": played.how,
            "file": played.file,
            "stalls": stalls,
            "coverage": played.coverage,
        });
        writeln!(std::io::stdout(), "{document:#}")?;
        return Ok(());
    }
    explain(scenario, &played, &stalls, &mut std::io::stdout())?;
    Ok(())
}

fn choose(name: Option<&str>) -> Result<&'static Scenario, Failure> {
    let names = || SCENARIOS.iter().map(|scenario| scenario.name).collect::<Vec<_>>().join(", ");
    match name {
        None => SCENARIOS.first().ok_or_else(|| Failure::Failed("there are no scenarios".into())),
        Some(name) => SCENARIOS
            .iter()
            .find(|scenario| scenario.name == name)
            .ok_or_else(|| Failure::Usage(format!("there is no scenario '{name}'; there are {}", names()))),
    }
}

/// Live where the kernel allows it, else from the recording.
fn play(scenario: &'static Scenario, file: &Path, options: &DemoOptions) -> Result<Played, Failure> {
    if options.replay {
        return replay::play(scenario, file, None);
    }
    match live::play(scenario, file, options.record.as_deref()) {
        Ok(played) => Ok(played),
        Err(Failed::NotAllowed(why)) => replay::play(scenario, file, Some(&why)),
        Err(Failed::Other(failure)) => Err(failure),
    }
}

/// Why a scenario could not be played live.
pub(crate) enum Failed {
    /// The kernel does not let us.
    NotAllowed(String),
    Other(Failure),
}

impl Failed {
    fn from_agent(error: AgentError) -> Failed {
        match error {
            AgentError::Load(error) => Failed::NotAllowed(error.to_string()),
            other => Failed::Other(other.into()),
        }
    }
}

impl<E: Into<Failure>> From<E> for Failed {
    fn from(error: E) -> Self {
        Failed::Other(error.into())
    }
}

/// What, why, who and what to do, on one screen.
fn explain(
    scenario: &Scenario,
    played: &Played,
    stalls: &[Stall],
    out: &mut impl Write,
) -> Result<(), Failure> {
    writeln!(out, "\n{}", played.how)?;
    let Some(stall) = stalls.iter().find(|stall| stall.op == scenario.op) else {
        return Err(Failure::Nothing(format!(
            "no stall of {} was seen; the host may be too busy",
            scenario.op
        )));
    };
    let name = |pid: u32| {
        played.processes.iter().find(|process| process.pid == pid).map_or("", |process| process.comm.as_str())
    };
    writeln!(
        out,
        "\nWHAT  {} in {} (pid {}) usually takes {}; its p99 was {}, its worst {}.\n      {} calls lost {} beyond the usual.",
        stall.op,
        printable(name(stall.pid)),
        stall.pid,
        duration(stall.p50_ns),
        duration(stall.p99_ns),
        duration(stall.max_ns),
        count(stall.calls),
        duration(stall.excess_ns),
    )?;
    for (i, cause) in stall.causes.iter().filter(|cause| cause.share_pct >= 1.0).enumerate() {
        let label = if i == 0 { "WHY" } else { "" };
        writeln!(
            out,
            "{label:<5} {:>3.0}% {:<14} {}",
            cause.share_pct,
            cause.cause.name(),
            cause.cause.about()
        )?;
        for by in cause.by.iter().take(3) {
            writeln!(
                out,
                "{:>11}by {} (pid {}): {} in {} waits",
                "",
                printable(&by.comm),
                by.pid,
                duration(by.ns),
                count(by.count)
            )?;
        }
    }
    let culprit = stall.causes.first().and_then(|cause| cause.by.first()).map_or(0, |by| by.pid);
    writeln!(out, "FIX   {}", (scenario.fix)(stall.pid, culprit))?;
    write_coverage(&played.coverage, out)?;
    let file = played.file.display();
    writeln!(
        out,
        "\nGo on with:\n  gpuwhy query {file} \"SELECT * FROM op_summary\"\n  gpuwhy query {file} \"SELECT op, cause, by_comm, \
         by_pid, round(sum(ns)/1e6, 1) AS ms FROM blame WHERE op <> '' GROUP BY 1,2,3,4 ORDER BY ms DESC LIMIT 10\"\n  \
         gpuwhy query {file} --op {} --limit 10",
        stall.op
    )?;
    Ok(())
}
