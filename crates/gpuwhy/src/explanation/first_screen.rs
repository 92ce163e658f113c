//! The first screen: what holds the program up and what it would save, what a step is made of, the worst findings. Everything else is
//! behind `--verbose`.

use super::brief::{Brief, Detail};
use super::steps::{Room, time};
use super::wrap::{cut, wrap};
use super::{Style, coverage, servers, steps};
use crate::shell;
use gpuwhy_cause::StepTree;
use gpuwhy_model::units::{clock, count, duration, printable};
use gpuwhy_model::{Cause, Finding, Severity};
use gpuwhy_query::Explained;
use std::io::{self, Write};
use std::path::Path;

/// A terminal of today shows at least this without scrolling, its prompt left out.
pub(crate) const LINES: usize = 24;
/// Narrower ones are not written for.
const MIN_WIDTH: usize = 60;
const MAX_WIDTH: usize = 160;
/// Longer ones are cut.
const VERDICT_LINES: usize = 4;
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

/// What is said of all of an answer, of which findings may be left out.
#[derive(Debug, Clone)]
pub(crate) struct Whole {
    pub(crate) verdict: String,
    /// The options that chose what is shown, as they are typed: with them the rest is asked for.
    pub(crate) options: String,
}

impl Whole {
    pub(crate) fn of(explained: &Explained) -> Whole {
        Whole { verdict: verdict(explained), options: String::new() }
    }
}

pub(crate) fn write(
    explained: &Explained,
    whole: &Whole,
    style: Style,
    screen: Screen,
    out: &mut impl Write,
) -> io::Result<()> {
    if !screen.quiet {
        for line in wrap("", "   ", &about(explained), screen.width, 1) {
            writeln!(out, "{line}")?;
        }
    }
    write_answer(explained, whole, style, screen, out)
}

/// The same without what was looked at: a line less.
pub(crate) fn write_answer(
    explained: &Explained,
    whole: &Whole,
    style: Style,
    screen: Screen,
    out: &mut impl Write,
) -> io::Result<()> {
    let verdict = &whole.verdict;
    if screen.quiet {
        return writeln!(out, "{verdict}");
    }
    let (width, file) = (screen.width, &explained.trace.file);
    let head = wrap("=> ", "   ", verdict, width, VERDICT_LINES);
    let servers = explained.servers.iter().take(MAX_SERVERS);
    let mut tail: Vec<String> = servers.map(|server| cut(&servers::line(server), width)).collect();
    tail.extend(wrap("", "   ", &coverage::line(explained), width, COVERAGE_LINES));
    let worth: Vec<&Finding> = worth(explained).into_iter().take(screen.top).collect();
    let briefs: Vec<Brief> =
        (1..).zip(&worth).map(|(number, finding)| Brief::of(number, finding, file, style, width)).collect();
    let serious = worth.iter().filter(|finding| finding.severity != Severity::Low).count();
    let trees = Room::of_screen(width).map(|room| steps::lines(explained, room));
    // What lies behind the findings is wrapped by the terminal where it is long.
    let more = |left: usize| more(left, file, &whole.options, width);
    let below: usize =
        more(explained.findings.len()).iter().map(|line| line.chars().count().div_ceil(width)).sum();
    // Beside the file and an empty line before what was not seen.
    let room = LINES.saturating_sub(head.len() + tail.len() + below + 2);
    let (tree, shown) = arranged(&trees, &briefs, serious, room);
    let findings: Vec<String> =
        briefs.iter().zip(&shown).flat_map(|(brief, detail)| brief.lines(*detail)).collect();
    let parts = [head, tree, findings, tail];
    for (at, part) in parts.iter().filter(|part| !part.is_empty()).enumerate() {
        if at > 0 {
            writeln!(out)?;
        }
        for line in part {
            writeln!(out, "{line}")?;
        }
    }
    for line in more(explained.findings.len() - shown.len()) {
        writeln!(out, "{line}")?;
    }
    Ok(())
}

/// Which tree is shown, and how much of which findings, in so many lines with an empty one before each part. All serious findings
/// come before a larger tree, and what to do about each before all there is to say of the first; what is not serious comes where
/// there is room.
fn arranged(
    trees: &[Vec<String>; Room::MANY],
    briefs: &[Brief],
    serious: usize,
    room: usize,
) -> (Vec<String>, Vec<Detail>) {
    // With these little of the tree is left out.
    const LARGE_TREES: usize = 3;
    let of_tree = |tree: &[String]| if tree.is_empty() { 0 } else { 1 + tree.len() };
    let height = |shown: &[Detail]| -> usize {
        briefs.iter().zip(shown).map(|(brief, detail)| brief.height(*detail)).sum::<usize>()
    };
    let of_findings = |shown: &[Detail]| if shown.is_empty() { 0 } else { 1 + height(shown) };
    let plans = |many: usize| {
        [(LARGE_TREES, Detail::Why), (trees.len() - 1, Detail::Fix), (trees.len(), Detail::Title)].map(
            move |(trees, others)| {
                let first = if others == Detail::Title && many == 1 { Detail::Title } else { Detail::Why };
                let shown: Vec<Detail> =
                    std::iter::once(first).chain(std::iter::repeat(others)).take(many).collect();
                (trees, shown)
            },
        )
    };
    let must = serious.clamp(usize::from(!briefs.is_empty()), briefs.len());
    let found = (0..=must).rev().flat_map(plans).find_map(|(tried, shown)| {
        let fits = |tree: &&Vec<String>| of_tree(tree) + of_findings(&shown) <= room;
        let tree = trees.iter().take(tried).find(fits)?;
        Some((tree.clone(), shown))
    });
    let Some((tree, mut shown)) = found else { return (Vec::new(), Vec::new()) };
    let left = |shown: &[Detail]| room.saturating_sub(of_tree(&tree) + of_findings(shown));
    for detail in [Detail::Fix, Detail::Why, Detail::Whole] {
        for at in 0..shown.len() {
            let more = briefs[at].height(detail).saturating_sub(briefs[at].height(shown[at]));
            if shown[at] < detail && more <= left(&shown) {
                shown[at] = detail;
            }
        }
    }
    for brief in &briefs[shown.len()..] {
        let separator = usize::from(shown.is_empty());
        let fits = |detail: &Detail| brief.height(*detail) + separator <= left(&shown);
        match [Detail::Whole, Detail::Why, Detail::Fix].into_iter().find(fits) {
            Some(detail) => shown.push(detail),
            None => break,
        }
    }
    (tree, shown)
}

/// Where the rest is. A command that is cut cannot be pasted: a long one has a line of its own, which the terminal wraps.
fn more(left: usize, file: &str, options: &str, width: usize) -> Vec<String> {
    let command = format!("{}{options} --verbose", shell::explain(Path::new(file)));
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

/// Without what a start costs, and without what hides behind something else, unless that comes first.
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
    let is_beside = |finding: &Finding| is_of_start(finding) || is_hidden(finding);
    let numbered = explained.findings.iter().enumerate();
    numbered
        .filter(|(at, finding)| (*at == 0 || !is_beside(finding)) && !is_of_idle(finding))
        .map(|(_, finding)| finding)
        .collect()
}

/// Without it nothing would be faster: another rank is later still, or the job hangs.
pub(crate) fn is_hidden(finding: &Finding) -> bool {
    finding.severity == Severity::Low
        && finding.by_design.is_none()
        && finding.saves_ms_per_step.is_some_and(|saves| saves <= 0.0)
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

#[cfg(test)]
pub(crate) mod tests;
