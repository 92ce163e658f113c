//! The first screen: what holds the program up and what it would save, what a step is made of, the worst findings. Everything else is
//! behind `--verbose`.

use super::steps::{Room, time};
use super::wrap::{cut, wrap};
use super::{Style, coverage, place, servers, severity, steps};
use crate::shell;
use gpuwhy_cause::StepTree;
use gpuwhy_model::units::{clock, count, duration, printable};
use gpuwhy_model::{Cause, CauseShare, Finding, Severity};
use gpuwhy_query::Explained;
use std::io::{self, Write};
use std::path::Path;

/// A terminal of today shows at least this without scrolling, its prompt left out.
pub(crate) const LINES: usize = 24;
/// Narrower ones are not written for.
const MIN_WIDTH: usize = 60;
const MAX_WIDTH: usize = 160;
/// Of a finding's first sentence, of the verdict, of what to do: longer ones are cut.
const TITLE_LINES: usize = 3;
const VERDICT_LINES: usize = 4;
const WHY_LINES: usize = 2;
const FIX_LINES: usize = 2;
const COVERAGE_LINES: usize = 2;
const MAX_SERVERS: usize = 2;
/// Of an idle process: findings below this share of the time.
const MIN_OF_IDLE: f64 = 0.05;

#[derive(Debug, Clone, Copy)]
pub(crate) struct Screen {
    pub(crate) width: usize,
    /// Findings that are shown, where they fit.
    pub(crate) top: usize,
    /// The verdict alone.
    pub(crate) quiet: bool,
}

impl Screen {
    /// As wide as the terminal; 80 columns where there is none.
    pub(crate) fn of_terminal(top: usize, quiet: bool) -> Screen {
        let columns = ratatui::crossterm::terminal::size().map_or(80, |(columns, _)| usize::from(columns));
        Screen { width: columns.clamp(MIN_WIDTH, MAX_WIDTH), top, quiet }
    }
}

pub(crate) fn write(
    explained: &Explained,
    style: Style,
    screen: Screen,
    out: &mut impl Write,
) -> io::Result<()> {
    if !screen.quiet {
        for line in wrap("", "   ", &about(explained), screen.width, 1) {
            writeln!(out, "{line}")?;
        }
    }
    write_answer(explained, style, screen, out)
}

/// The same without what was looked at: a line less.
pub(crate) fn write_answer(
    explained: &Explained,
    style: Style,
    screen: Screen,
    out: &mut impl Write,
) -> io::Result<()> {
    let verdict = verdict(explained);
    if screen.quiet {
        return writeln!(out, "{verdict}");
    }
    let width = screen.width;
    let mut head = wrap("=> ", "   ", &verdict, width, VERDICT_LINES);
    let tree = steps::lines(explained, Room::first_screen(width));
    if !tree.is_empty() {
        head.push(String::new());
        head.extend(tree);
    }
    let servers = explained.servers.iter().take(MAX_SERVERS);
    let mut tail: Vec<String> = servers.map(|server| cut(&servers::line(server), width)).collect();
    tail.extend(wrap("", "   ", &coverage::line(explained), width, COVERAGE_LINES));
    // The file, a line between the parts, and those that say where the rest is.
    let below = more(explained.findings.len(), &explained.trace.file, width).len();
    let mut room = LINES.saturating_sub(head.len() + tail.len() + 3 + below);
    let mut shown = 0;
    let mut findings = Vec::new();
    for (number, finding) in worth(explained).into_iter().take(screen.top).enumerate() {
        let lines = finding_lines(number + 1, finding, &explained.trace.file, style, width);
        if number > 0 && lines.len() > room {
            break;
        }
        room = room.saturating_sub(lines.len());
        findings.extend(lines);
        shown += 1;
    }
    for line in head {
        writeln!(out, "{line}")?;
    }
    if !findings.is_empty() {
        writeln!(out)?;
    }
    for line in findings {
        writeln!(out, "{line}")?;
    }
    writeln!(out)?;
    for line in tail {
        writeln!(out, "{line}")?;
    }
    let left = explained.findings.len() - shown;
    for line in more(left, &explained.trace.file, width) {
        writeln!(out, "{line}")?;
    }
    Ok(())
}

/// Where the rest is. A command that is cut cannot be pasted: a long one has a line of its own, which the terminal wraps.
fn more(left: usize, file: &str, width: usize) -> Vec<String> {
    let command = format!("{} explain {} --verbose", shell::gpuwhy_for(Path::new(file)), shell::quoted(file));
    let what = match left {
        0 => "Evidence:".to_string(),
        1 => "1 more finding and all evidence:".into(),
        left => format!("{} more findings and all evidence:", count(left as u64)),
    };
    match what.chars().count() + 1 + command.chars().count() <= width {
        true => vec![format!("{what} {command}")],
        false => vec![what, format!("   {command}")],
    }
}

/// Without what a start costs, unless that comes first or matters.
fn worth(explained: &Explained) -> Vec<&Finding> {
    let is_of_start =
        |finding: &Finding| finding.phase.as_deref() == Some("start") && finding.severity == Severity::Low;
    // Of a process that had no work for most of the time, waiting for some is no fault, and what cost a little of it no answer.
    let wall_ms = explained.trace.end_ns.saturating_sub(explained.trace.start_ns) as f64 / 1e6;
    let is_small = |finding: &Finding| {
        let class = finding.causes.first().map(|share| share.class);
        matches!(class, Some(Cause::SelfSleep | Cause::NetWait))
            || finding.impact.excess_ms < MIN_OF_IDLE * wall_ms
    };
    let is_of_idle = |finding: &Finding| {
        explained.quiet.iter().any(|quiet| Some(quiet.pid) == finding.pid) && is_small(finding)
    };
    let numbered = explained.findings.iter().enumerate();
    numbered
        .filter(|(at, finding)| (*at == 0 || !is_of_start(finding)) && !is_of_idle(finding))
        .map(|(_, finding)| finding)
        .collect()
}

/// What was looked at: the file, how long, where, when.
fn about(explained: &Explained) -> String {
    let trace = &explained.trace;
    let nodes = match trace.nodes.is_empty() {
        true => String::new(),
        false => format!(" on {}", printable(&trace.nodes.join(", "))),
    };
    format!(
        "{}: {}{nodes}, {} to {}",
        printable(&trace.file),
        duration(trace.end_ns.saturating_sub(trace.start_ns)),
        clock(trace.start_ns).trim_end_matches(" UTC"),
        clock(trace.end_ns),
    )
}

/// One sentence: what holds the program up, what it would save, since when.
pub(crate) fn verdict(explained: &Explained) -> String {
    if let Some(quiet) = explained.quiet.first().filter(|_| is_idle(explained)) {
        return format!("The GPU has no work: {}.", printable(&quiet.sentence()));
    }
    let is_of_now = |finding: &&Finding| finding.phase.as_deref() != Some("start");
    let worst = explained.findings.iter().find(is_of_now).filter(|finding| finding.severity != Severity::Low);
    match worst {
        Some(finding) => accusation(explained, finding),
        None => acquittal(explained),
    }
}

/// Whether all that used the GPU has stopped giving it work.
fn is_idle(explained: &Explained) -> bool {
    let is_quiet = |pid: u32| explained.quiet.iter().any(|quiet| quiet.pid == pid);
    let has_hang = explained.findings.iter().any(|finding| {
        finding.causes.first().is_some_and(|share| matches!(share.class, Cause::RankHang | Cause::GpuError))
    });
    !explained.quiet.is_empty() && !has_hang && explained.steps.iter().all(|tree| is_quiet(tree.pid))
}

fn accusation(explained: &Explained, finding: &Finding) -> String {
    let title = printable(&finding.title);
    // How much of a step follows in a form of its own.
    let what = match title.rsplit_once(": ") {
        Some((what, much)) if much.contains(" of each step") => what,
        _ => &title,
    };
    let tree = explained.steps.iter().find(|tree| Some(tree.pid) == finding.pid && tree.phase == "loop");
    // What happened once, or for a while, is not a part of each step.
    let lasts = |tree: &&StepTree| finding.window.ns() * 2 >= tree.window.ns();
    let saving = match (finding.saves_ms_per_step, tree.filter(lasts)) {
        (Some(saves), Some(tree)) if saves > 0.0 => {
            let unit = if tree.found_by.is_some() { "each step" } else { "all" };
            format!(
                "; without it {unit} takes {} instead of {} (-{:.0}%)",
                time(tree.mean_ms - saves),
                time(tree.mean_ms),
                100.0 * saves / tree.mean_ms.max(f64::MIN_POSITIVE)
            )
        }
        _ if finding.impact.excess_ms >= 1.0 => {
            format!("; it cost {} ({:.0}%)", time(finding.impact.excess_ms), finding.impact.wall_pct)
        }
        _ => String::new(),
    };
    let when = match tree.is_some_and(|tree| lasts(&tree)) {
        true => format!("; since {}", clock(finding.window.start_ns)),
        // A stall says when it was.
        false if what.contains(" UTC") => String::new(),
        false => format!("; at {}", clock(finding.window.start_ns)),
    };
    format!("{what}{saving}{when}.")
}

/// Nothing to mend first: what the time goes to all the same.
fn acquittal(explained: &Explained) -> String {
    let Some(tree) = steps::main_of(explained) else {
        return "No fault found: no calls were slow beyond the usual.".into();
    };
    let busy = steps::busy(tree, &explained.idle);
    let first = tree.path.iter().find(|part| part.process != 0);
    let unit = if tree.found_by.is_some() { "each step" } else { "its time" };
    let part = first.map_or_else(String::new, |part| {
        format!("{} is {:.0}% of {unit}, ", printable(&part.message), part.share_pct)
    });
    format!("No fault found: {part}{busy}; since {}.", clock(tree.window.start_ns))
}

/// What and when, why and by whom, where, what to do: three or four lines where a terminal is wide enough.
fn finding_lines(number: usize, finding: &Finding, file: &str, style: Style, width: usize) -> Vec<String> {
    const INDENT: &str = "            ";
    let title = printable(&finding.title);
    let when = match title.contains(" UTC") {
        true => String::new(),
        false => format!("; from {}", clock(finding.window.start_ns)),
    };
    let mut lines = wrap(INDENT, INDENT, &format!("{title}{when}"), width, TITLE_LINES);
    if let Some(first) = lines.first_mut() {
        let title = first.trim_start().to_string();
        *first = format!("{number:>2} {} {title}", severity(finding, style));
    }
    if let Some(share) = finding.causes.first() {
        lines.extend(wrap("   why      ", INDENT, &why(share, finding, &title), width, WHY_LINES));
    }
    if let Some(place) = place(finding) {
        let frames = without_folders(&printable(&place));
        // The title has the innermost line already, where there is one.
        let is_said = frames.split(" < ").next().is_some_and(|first| title.contains(first));
        if !is_said {
            lines.push(format!("   where    {}", fitting(&frames, width.saturating_sub(INDENT.len()))));
        }
    }
    if let Some(touched) = finding.steps.first() {
        lines.extend(wrap("   when     ", INDENT, &printable(&super::touched_steps(touched)), width, 2));
    }
    if let Some(fix) = finding.fixes.first() {
        let (words, command) = shell::advice(fix, file);
        lines.extend(wrap("   do       ", INDENT, &words, width, FIX_LINES));
        // One that does not fit into a line cannot be pasted from here; --verbose has it.
        let command = command.map(|command| format!("{INDENT}{command}"));
        lines.extend(command.filter(|command| command.chars().count() <= width));
    }
    lines
}

/// The main cause, and who was behind it where the title has not named them.
fn why(share: &CauseShare, finding: &Finding, title: &str) -> String {
    let (class, about) = (share.class.name(), share.class.about());
    let by = share.by.first().filter(|by| !by.comm.is_empty()).map(|by| {
        let name = match by.pid {
            Some(pid) => format!("{}[{pid}]", printable(&by.comm)),
            None => printable(&by.comm),
        };
        let rank = by.rank.map_or_else(String::new, |rank| format!("rank {rank}, "));
        (name, rank)
    });
    let is_own = |name: &String| {
        finding
            .process
            .as_ref()
            .zip(finding.pid)
            .is_some_and(|(process, pid)| *name == format!("{}[{pid}]", printable(process)))
    };
    let by = match by {
        Some((name, rank)) if !title.contains(&name) && !is_own(&name) => format!(": {rank}{name}"),
        _ => String::new(),
    };
    match share.share_pct {
        pct if pct >= 99.5 => format!("{class}: {about}{by}"),
        pct => format!("{class} {pct:.0}%: {about}{by}"),
    }
}

/// As many frames as fit, the innermost first.
fn fitting(frames: &str, width: usize) -> String {
    let mut shown = String::new();
    for frame in frames.split(" < ") {
        let longer = if shown.is_empty() { frame.to_string() } else { format!("{shown} < {frame}") };
        if longer.chars().count() > width {
            break;
        }
        shown = longer;
    }
    if shown.is_empty() { cut(frames, width) } else { shown }
}

/// File names alone: folders are behind `--verbose`.
fn without_folders(place: &str) -> String {
    place.split(" < ").map(steps::short).collect::<Vec<_>>().join(" < ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_frames_are_shown_as_far_as_they_fit() {
        assert_eq!(fitting("train.py:28 fetch < run.py:31 main", 20), "train.py:28 fetch");
        assert_eq!(fitting("train.py:28 fetch < run.py:31 main", 60), "train.py:28 fetch < run.py:31 main");
        assert_eq!(fitting("train.py:28 fetch", 8), "train.p…");
    }

    #[test]
    fn folders_are_left_out_of_a_place() {
        assert_eq!(
            without_folders("/srv/job/train.py:28 fetch < /srv/run.py:31 main; kernel add"),
            "train.py:28 fetch < run.py:31 main; kernel add"
        );
        assert_eq!(without_folders("cudaMemcpyAsync (libcudart.so.13)"), "cudaMemcpyAsync (libcudart.so.13)");
    }
}
