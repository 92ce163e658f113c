//! The end of a trace, for people: what was called, where the time went, what was not seen, where the file is.

use crate::explanation;
use crate::panels::{OPERATIONS, REST, Topic, View};
use gpuwhy_agent::Summary;
use gpuwhy_model::units::{count, duration, printable};
use gpuwhy_model::{CallClass, Coverage};
use gpuwhy_query::Explained;
use std::io::{self, Write};

/// Findings in full; `explain` has them all.
const MOST_FINDINGS: usize = 3;
/// Of a topic; the file has all.
const MOST_LINES: usize = 40;

pub(crate) fn write(
    summary: &Summary,
    explained: Option<&Explained>,
    out: &mut impl Write,
) -> io::Result<()> {
    let last = &summary.last;
    let view = View::of(last, &summary.ops, &[], false);
    let seconds = last.now_ns.saturating_sub(last.start_ns);
    writeln!(
        out,
        "\nTraced {} of {} process{}: {} GPU calls counted{}, {} kept in full.",
        duration(seconds),
        count(last.processes_seen as u64),
        if last.processes_seen == 1 { "" } else { "es" },
        count(last.tallies.calls()),
        sampled(&view),
        count(last.tallies.kept()),
    )?;
    if last.tallies.calls() == 0 {
        writeln!(out, "{}", nothing_seen(last.libraries))?;
    } else {
        write_panels(&view, &[OPERATIONS], out)?;
    }
    write_panels(&view, REST, out)?;
    if let Some(explained) = explained {
        let first_pid = explained.findings.first().and_then(|finding| finding.pid);
        explanation::steps::write(&explained.steps, first_pid, out)?;
    }
    if let Some(explained) = explained.filter(|explained| !explained.findings.is_empty()) {
        writeln!(out, "\nFindings:")?;
        explanation::write_first(explained, MOST_FINDINGS, out)?;
    }
    write_coverage(&last.coverage, out)?;
    if let Some(status) = summary.command_status.filter(|status| !status.success()) {
        writeln!(out, "The command ended with {status}.")?;
    }
    writeln!(out, "\nTrace: {}", summary.file.display())?;
    writeln!(out, "Next:  gpuwhy explain {}", summary.file.display())
}

/// Which of them were not watched all the time.
fn sampled(view: &View<'_>) -> String {
    let one = |class: CallClass| {
        let pct = view.watched_pct(Some(class))?;
        Some(format!("{} {pct:.0}% of the time", class.name()))
    };
    let sampled: Vec<String> = CallClass::ALL.into_iter().filter_map(one).collect();
    if sampled.is_empty() { String::new() } else { format!(" ({})", sampled.join(", ")) }
}

fn nothing_seen(libraries: usize) -> &'static str {
    match libraries {
        0 => {
            "No process mapped a GPU library (libcuda, libcudart, libnccl, libamdhip64). `gpuwhy check` lists what it finds."
        }
        _ => "GPU libraries were found and probed, but no traced process called them.",
    }
}

/// One topic after the other; nothing of those that have nothing to tell.
pub(crate) fn write_panels(view: &View<'_>, topics: &[Topic], out: &mut impl Write) -> io::Result<()> {
    for panel in topics.iter().filter_map(|topic| topic(view)) {
        writeln!(out)?;
        for line in panel.lines(usize::MAX, MOST_LINES) {
            writeln!(out, "{}", line.to_string().trim_end())?;
        }
    }
    Ok(())
}

/// What was not seen; said with every answer.
pub(crate) fn write_coverage(coverage: &Coverage, out: &mut impl Write) -> io::Result<()> {
    if !coverage.notes.is_empty() {
        writeln!(out, "\nCoverage: another tool recorded this trace, so:")?;
        for line in &coverage.notes {
            writeln!(out, "  {}", printable(line))?;
        }
        return Ok(());
    }
    let counted = match coverage.degraded.is_empty() && coverage.unattached.is_empty() {
        true => "every call counted",
        false => "calls counted where and when probes were attached",
    };
    write!(out, "\nCoverage: {counted}; {} not kept in full", count(coverage.sampled))?;
    match coverage.lost {
        0 => writeln!(out, "; nothing lost.")?,
        lost => writeln!(out, "; {} records LOST (table `loss` says where).", count(lost))?,
    }
    for line in coverage.degraded.iter().take(5) {
        writeln!(out, "  degraded: {}", printable(line))?;
    }
    for line in coverage.unattached.iter().take(5) {
        writeln!(out, "  not attached: {}", printable(line))?;
    }
    for line in &coverage.missing {
        writeln!(out, "  missing: {}", printable(line))?;
    }
    Ok(())
}
