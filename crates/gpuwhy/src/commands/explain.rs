//! `gpuwhy explain`: why the GPU stalled.

use crate::chosen::{self, Moment};
use crate::cli::ExplainOptions;
use crate::explanation::first_screen::{self, Screen, Whole};
use crate::explanation::{self, Style};
use crate::failure::Failure;
use crate::nodes::{Asked, WithNodes};
use crate::paths;
use gpuwhy_model::Severity;
use gpuwhy_model::advice;
use gpuwhy_model::units::{printable, quoted};
use gpuwhy_nodes::Part;
use gpuwhy_query::{ExplainRequest, Explained, explain};
use std::io::Write;
use std::time::Duration;

/// On the first screen.
const FIRST_FINDINGS: usize = 3;

pub(crate) fn run(options: &ExplainOptions) -> Result<(), Failure> {
    let asked = match (&options.file, options.fan.nodes.is_empty()) {
        (Some(_), false) => return Err(Failure::both()),
        (None, false) => {
            let from = options.from.map(Moment::before_now);
            Asked::nodes(&options.fan, part(options.since, from))?
        }
        (file, true) => {
            let file = file.clone().or_else(|| options.db.clone()).unwrap_or_else(paths::default_trace);
            Asked::file(&file)?
        }
    };
    let reader = &asked.reader;
    let pids = options.pid.as_ref().map(|who| who.among(reader)).transpose()?;
    let (from_ns, to_ns) = chosen::times(reader, options.from, options.to)?;
    let request = ExplainRequest {
        // Several of one name are chosen among the findings.
        pid: pids.as_deref().and_then(|pids| if let [pid] = pids { Some(*pid) } else { None }),
        op: options.op.as_deref().map(|op| chosen::operation(reader, op)).transpose()?,
        since: options.since.map(|since| format!("{}s", since.as_secs_f64())),
        from_ns,
        to_ns,
        per_process: options.per_process,
    };
    let mut explained = explain(reader, &request).map_err(|error| asked.failure(error))?;
    if let Some(pids) = &pids {
        explained.findings.retain(|finding| finding.pid.is_some_and(|pid| pids.contains(&pid)));
        explained.steps.retain(|tree| pids.contains(&tree.pid));
        explained.idle.retain(|idle| pids.contains(&idle.pid));
    }
    if let Some(names) = asked.names() {
        ask_nodes(&mut explained, &asked.words());
        explained.trace.file = names;
    }
    // Before findings are left out: what is not asked about is not acquitted.
    let verdict = match &options.op {
        Some(op) if explained.findings.is_empty() => {
            format!("No fault of {} found; of other calls nothing is said here.", printable(op))
        }
        _ => first_screen::verdict(&explained),
    };
    let whole = Whole { verdict, options: chosen_by(options, request.since) };
    // The worst is the least of them.
    explained.findings.retain(|finding| finding.severity <= options.min_severity);
    let is_full = options.verbose || options.per_process;
    let top = options.top.unwrap_or(if is_full || options.json { usize::MAX } else { FIRST_FINDINGS });
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    if is_full || options.json {
        explained.findings.truncate(top);
    }
    if options.json {
        let answer = WithNodes { answer: &explained, nodes: asked.nodes.as_deref() };
        serde_json::to_writer_pretty(&mut out, &answer)?;
        writeln!(out)?;
    } else {
        let style = Style {
            nodes: asked.nodes.is_some(),
            all: options.verbose,
            ..Style::of(options.color, options.per_process)
        };
        match is_full {
            true => explanation::write(&explained, &whole.verdict, style, &mut out)?,
            false => {
                let screen = Screen::of_terminal(top, options.quiet);
                first_screen::write(&explained, &whole, style, screen, &mut out)?;
            }
        }
        if let Some(tail) = options.tail {
            explanation::write_tail(&explained.tail, tail.name(), style, &mut out)?;
        }
    }
    out.flush()?;
    if !options.json {
        asked.report();
    }
    Ok(())
}

/// The options that say what is asked about, as they were typed.
fn chosen_by(options: &ExplainOptions, since: Option<String>) -> String {
    let severity = (options.min_severity != Severity::Low).then(|| options.min_severity.name().to_string());
    let named = [
        ("since", since),
        ("from", options.from.map(|from| from.to_string())),
        ("until", options.to.map(|to| to.to_string())),
        ("pid", options.pid.as_ref().map(ToString::to_string)),
        ("op", options.op.clone()),
        ("min-severity", severity),
    ];
    let named = named.into_iter().filter_map(|(name, value)| Some((name, value?)));
    named.map(|(name, value)| format!(" --{name} {}", quoted(&value))).collect()
}

/// Commands ask the nodes again: the file that was asked goes.
fn ask_nodes(explained: &mut Explained, nodes: &str) {
    let file = quoted(&explained.trace.file);
    for fix in explained.findings.iter_mut().flat_map(|finding| &mut finding.fixes) {
        // A comparison is of files.
        *fix = match advice::parts(fix) {
            Some((words, command, _)) if command.starts_with("gpuwhy compare ") => {
                words.trim_end_matches([' ', ':']).into()
            }
            _ => fix.replace(&file, nodes),
        };
    }
}

/// What has to be fetched of other nodes for the time that is asked about.
pub(super) fn part(since: Option<Duration>, from: Option<u64>) -> Part {
    match (since, from) {
        (Some(since), _) => Part::Since(since),
        (None, Some(from)) => Part::From(from),
        (None, None) => Part::All,
    }
}
