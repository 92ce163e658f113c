//! `gpuwhy demo`: a stall, injected and explained, with no GPU.

mod live;
mod recording;
mod replay;
mod scenario;
mod tour;

use crate::cli::{Colour, DemoOptions};
use crate::explanation::Style;
use crate::explanation::first_screen::{self, Screen, Whole};
use crate::failure::Failure;
use crate::panels::View;
use crate::shell::quoted;
use gpuwhy_agent::{AgentError, Overview, Summary};
use gpuwhy_cause::Tallies;
use gpuwhy_model::{Coverage, OpInfo, Process};
use gpuwhy_query::{ExplainRequest, Explained, explain};
use gpuwhy_store::Reader;
use scenario::{Ending, SCENARIOS, Scenario};
use schemars::JsonSchema;
use serde::Serialize;
use std::io::Write;
use std::path::{Path, PathBuf};

/// As `demo --json` prints it.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct DemoReport {
    scenario: &'static str,
    /// Traced on this host just now; else replayed from a recording.
    live: bool,
    /// In a sentence.
    how: String,
    /// Where the trace is; null where it was not kept.
    file: Option<PathBuf>,
    /// As `explain --json` has it.
    #[schemars(with = "serde_json::Map<String, serde_json::Value>")]
    explanation: Explained,
    coverage: Coverage,
}

/// A scenario from its recording, for tests of what is shown of it.
#[cfg(test)]
#[allow(clippy::expect_used, reason = "a test without its recording has failed")]
pub(crate) fn replayed(name: &str, file: &Path) -> Played {
    let scenario = SCENARIOS.iter().find(|scenario| scenario.name == name).expect("a scenario");
    replay::play(scenario, file, None).expect("its recording")
}

/// A scenario that was run, one way or the other.
pub(crate) struct Played {
    /// How: live here, or replayed from where.
    pub(crate) how: String,
    pub(crate) live: bool,
    pub(crate) file: PathBuf,
    pub(crate) start_ns: u64,
    pub(crate) end_ns: u64,
    pub(crate) tallies: Tallies,
    pub(crate) overview: Overview,
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
            start_ns: summary.last.start_ns,
            end_ns: summary.last.now_ns,
            tallies: summary.last.tallies,
            overview: summary.last.overview,
            ops: summary.ops,
            processes: summary.last.processes,
            coverage: summary.last.coverage,
        }
    }

    fn view(&self) -> View<'_> {
        View {
            start_ns: self.start_ns,
            now_ns: self.end_ns,
            tallies: &self.tallies,
            ops: &self.ops,
            processes: &self.processes,
            overview: &self.overview,
            findings: &[],
            steps: &[],
            verdict: None,
            lost: None,
            live: false,
        }
    }
}

pub(crate) fn run(options: &DemoOptions) -> Result<(), Failure> {
    if options.list {
        for scenario in SCENARIOS {
            writeln!(std::io::stdout(), "{:<14} {}", scenario.name, scenario.about)?;
        }
        return Ok(());
    }
    let scenario = choose(options.scenario.as_deref())?;
    if !options.replay && scenario.is_live() {
        live::enter(scenario)?;
    }
    // A trace that nobody named goes when it was explained.
    let folder = match options.out {
        Some(_) => None,
        None => Some(
            tempfile::Builder::new()
                .prefix("gpuwhy-demo-")
                .tempdir()
                .map_err(|error| Failure::no_folder(&error))?,
        ),
    };
    let folder_path = folder.as_ref().map(|folder| folder.path().join(format!("{}.db", scenario.name)));
    let file = options.out.clone().or(folder_path).unwrap_or_default();
    if !options.json {
        writeln!(std::io::stdout(), "{}\n", scenario.story)?;
    }
    let played = play(scenario, &file, options)?;
    if options.json {
        let report = DemoReport {
            scenario: scenario.name,
            live: played.live,
            how: played.how,
            explanation: explain(&Reader::open(&played.file)?, &ExplainRequest::default())?,
            file: folder.is_none().then_some(played.file),
            coverage: played.coverage,
        };
        writeln!(std::io::stdout(), "{}", serde_json::to_string_pretty(&report)?)?;
        return Ok(());
    }
    let out = &mut std::io::stdout();
    writeln!(out, "\n{}", played.how)?;
    match &scenario.ending {
        Ending::Explain => write_explained(scenario, &played, folder.is_none(), out),
        Ending::Tour { questions } => tour::write(questions, &played, folder.is_none(), out),
    }
}

/// What `explain` says, and what to go on with. `is_kept`: the trace stays.
fn write_explained(
    scenario: &Scenario,
    played: &Played,
    is_kept: bool,
    out: &mut impl Write,
) -> Result<(), Failure> {
    let mut explained = explain(&Reader::open(&played.file)?, &ExplainRequest::default())?;
    let file = if is_kept { played.file.display().to_string() } else { format!("{}.db", scenario.name) };
    explained.trace.file.clone_from(&file);
    let whole = Whole::of(&explained);
    first_screen::write(
        &explained,
        &whole,
        Style::of(Colour::Auto, false),
        Screen::of_terminal(3, false),
        out,
    )?;
    let file = quoted(&file);
    writeln!(out, "\nGo on with:")?;
    if !is_kept {
        writeln!(out, "  gpuwhy demo {} --out {file}     # keeps the trace", scenario.name)?;
    }
    writeln!(
        out,
        "  gpuwhy explain {file} --tail p99.9\n  gpuwhy explain {file} --json\n  \
         gpuwhy query {file} op_summary\n  gpuwhy demo --list"
    )?;
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
    if options.replay || !scenario.is_live() {
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
