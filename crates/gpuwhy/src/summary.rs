//! The end of a trace, for people: what was called, where the file is, and the answer.

use crate::cli::Colour;
use crate::explanation::Style;
use crate::explanation::coverage::by_place;
use crate::explanation::first_screen::{self, Screen, Whole};
use crate::panels::{OPERATIONS, REST, Rest, Topic, View};
use gpuwhy_agent::{Snapshot, Summary};
use gpuwhy_model::units::{count, duration, printable};
use gpuwhy_model::{CallClass, Coverage};
use gpuwhy_query::Explained;
use std::io::{self, Write};

/// Of a topic; the file has all.
const MAX_LINES: usize = 40;
/// On the first screen.
const MAX_FINDINGS: usize = 3;

/// How much is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Detail {
    /// The verdict and the file.
    Quiet,
    #[default]
    Answer,
    /// The tables of all topics, too.
    Tables,
}

/// The answer comes last: it is what is left on the screen.
pub(crate) fn write(
    summary: &Summary,
    explained: Option<&Explained>,
    detail: Detail,
    out: &mut impl Write,
) -> io::Result<()> {
    let last = &summary.last;
    let view = View::of(last, &summary.ops, &[], false);
    let seconds = last.now_ns.saturating_sub(last.start_ns);
    if detail != Detail::Quiet {
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
    }
    if detail == Detail::Tables {
        // The answer stands below them.
        let rest = Rest::Recorded { explain: "" };
        write_panels(&view, &[OPERATIONS], rest, out)?;
        write_panels(&view, REST, rest, out)?;
        write_coverage(&last.coverage, out)?;
        writeln!(out)?;
    }
    if let Some(status) = summary.command_status.filter(|status| !status.success()) {
        writeln!(out, "The command ended with {status}.")?;
    }
    writeln!(out, "Trace: {}", printable(&summary.file.display().to_string()))?;
    match explained {
        Some(explained) => {
            let screen = Screen::of_terminal(MAX_FINDINGS, detail == Detail::Quiet);
            first_screen::write_answer(
                explained,
                &Whole::of(explained),
                Style::of(Colour::Auto, false),
                screen,
                out,
            )
        }
        // There is nothing to explain.
        None => writeln!(out, "{}", nothing_seen(last)),
    }
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

/// Why there is no answer, and what to do instead of asking for one.
fn nothing_seen(last: &Snapshot) -> &'static str {
    match (last.tallies.calls(), last.libraries) {
        (0, 0) => {
            "No GPU calls were seen: no process mapped a GPU library (libcuda, libcudart, libnccl, libamdhip64). \
             `gpuwhy check` lists what it finds; trace again while a program uses the GPU."
        }
        (0, _) => {
            "No GPU calls were seen: GPU libraries were found and probed, but no traced process called them. Trace again while \
             a program uses the GPU."
        }
        _ => "There is nothing to explain yet: too little was traced. Trace for longer.",
    }
}

/// One topic after the other; nothing of those that have nothing to tell.
pub(crate) fn write_panels(
    view: &View<'_>,
    topics: &[Topic],
    rest: Rest<'_>,
    out: &mut impl Write,
) -> io::Result<()> {
    for panel in topics.iter().filter_map(|topic| topic(view)) {
        writeln!(out)?;
        for line in panel.lines(usize::MAX, MAX_LINES, rest) {
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
        lost => writeln!(out, "; {} records LOST{}.", count(lost), by_place(&coverage.lost_by))?,
    }
    for line in &coverage.degraded {
        writeln!(out, "  degraded: {}", printable(line))?;
    }
    for line in &coverage.unattached {
        writeln!(out, "  not attached: {}", printable(line))?;
    }
    for line in &coverage.missing {
        writeln!(out, "  missing: {}", printable(line))?;
    }
    Ok(())
}
