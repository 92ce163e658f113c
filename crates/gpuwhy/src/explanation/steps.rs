//! The step tree: what a step of each process is made of, where its loop waits, and how busy its GPU was.

use super::Style;
use super::wrap::wrap;
use gpuwhy_cause::{Idle, PathPart, Requests, StepTree};
use gpuwhy_model::units::{count, duration, printable};
use gpuwhy_model::{Cause, Finding, is_of_library};
use gpuwhy_query::Explained;
use std::io::{self, Write};

/// Processes beside the main one that get a line.
const MAX_PROCESSES: usize = 6;
/// Parts of a step behind the first screen.
const MAX_PARTS: usize = 6;
/// Parts below this are summed in the last line.
const MIN_SHARE_PCT: f64 = 2.0;
/// A part from this share on is what the loop waits for.
const MAIN_PCT: f64 = 20.0;
/// Lines of the program that are named of a part.
const MAX_FRAMES: usize = 2;
const ARROW: &str = "<- the loop waits here";

/// How much room a tree has.
#[derive(Debug, Clone, Copy)]
pub(super) struct Room {
    width: usize,
    max_parts: usize,
    /// Lines of one part.
    max_lines: usize,
}

impl Room {
    /// Behind the first screen lines are as long as they are.
    fn of_page(style: Style) -> Room {
        Room { width: usize::MAX, max_parts: style.max(MAX_PARTS), max_lines: 1 }
    }

    pub(super) const MANY: usize = 7;

    /// On the first screen, the largest first; the last has the title alone.
    pub(super) fn of_screen(width: usize) -> [Room; Room::MANY] {
        [(4, 2), (3, 2), (4, 1), (3, 1), (2, 1), (1, 1), (0, 1)].map(|(max_parts, max_lines)| Room {
            width,
            max_parts,
            max_lines,
        })
    }
}

/// The tree of one process in full, that of the first finding where there are several; the others in a line each.
pub(crate) fn write(explained: &Explained, style: Style, out: &mut impl Write) -> io::Result<()> {
    let max_processes = style.max(MAX_PROCESSES);
    let trees = &explained.steps;
    let loops: Vec<&StepTree> = trees.iter().filter(|tree| tree.phase == "loop").collect();
    let Some(main) = main_of(explained) else { return Ok(()) };
    writeln!(out)?;
    for line in lines(explained, Room::of_page(style)) {
        writeln!(out, "{line}")?;
    }
    if let Some(start) = trees.iter().find(|start| start.pid == main.pid && start.phase == "start") {
        writeln!(
            out,
            "{}",
            phase_line(start, &format!("before the loop: {} to start", time(start.median_ms)))
        )?;
    }
    if let Some(end) = trees.iter().find(|end| end.pid == main.pid && end.phase == "end") {
        writeln!(out, "{}", phase_line(end, &format!("behind the loop: {}", time(end.median_ms))))?;
    }
    let others = loops.iter().filter(|tree| tree.pid != main.pid);
    for tree in others.clone().take(max_processes) {
        let step = if tree.found_by.is_some() { " step" } else { "" };
        writeln!(out, "{}", phase_line(tree, &format!("{}{step} {}", name(tree), time(tree.mean_ms))))?;
    }
    if others.clone().count() > max_processes {
        writeln!(out, "and {} more processes; --verbose has them all", others.count() - max_processes)?;
    }
    Ok(())
}

/// That of the first finding, else the first.
pub(super) fn main_of(explained: &Explained) -> Option<&StepTree> {
    let first_pid = explained.findings.first().and_then(|finding| finding.pid);
    let mut loops = explained.steps.iter().filter(|tree| tree.phase == "loop");
    loops.clone().find(|tree| Some(tree.pid) == first_pid).or_else(|| loops.next())
}

pub(super) fn time(ms: f64) -> String {
    duration((ms.max(0.0) * 1e6) as u64)
}

fn name(tree: &StepTree) -> String {
    format!("{}[{}]", printable(tree.process.as_deref().unwrap_or("process")), tree.pid)
}

/// The tree of the main process: its title, its parts, and what is left.
pub(super) fn lines(explained: &Explained, room: Room) -> Vec<String> {
    let Some(tree) = main_of(explained) else { return Vec::new() };
    let is_one_of_many = explained.steps.iter().filter(|tree| tree.phase == "loop").count() > 1;
    let state = state(tree, explained);
    // A hung loop, and one without work, wait elsewhere.
    let is_waiting = state != State::Running;
    let title = title(tree, is_one_of_many, &explained.idle, state);
    let mut lines = wrap("", "   ", &title, room.width, usize::MAX);
    if lines.len() > room.max_lines {
        // Quantiles are rather left out than cut.
        let short = title.split("; ").next().unwrap_or_default();
        lines = wrap("", "   ", short, room.width, room.max_lines);
    }
    lines.extend(
        tree.requests
            .iter()
            .flat_map(|requests| wrap("", "   ", &request_line(requests), room.width, room.max_lines)),
    );
    if room.max_parts == 0 {
        return lines;
    }
    let is_shown = |part: &&PathPart| part.share_pct >= MIN_SHARE_PCT && part.process != 0;
    let shown: Vec<&PathPart> = tree.path.iter().filter(is_shown).take(room.max_parts).collect();
    let are_all = shown.len() == tree.path.iter().filter(is_shown).count();
    let rest: f64 = 100.0 - shown.iter().map(|part| part.share_pct).sum::<f64>();
    let has_rest = rest >= 0.5 && tree.path.len() > shown.len();
    for (at, part) in shown.iter().enumerate() {
        let is_last = at + 1 == shown.len() && !has_rest;
        let (branch, beside) = if is_last { ("└─", "  ") } else { ("├─", "│ ") };
        let first = format!("{branch} {:>7} {:>3.0}%  ", time(part.ms), part.share_pct);
        let others = format!("{beside}{}", " ".repeat(first.chars().count().saturating_sub(2)));
        let lines_of =
            |frames| wrap(&first, &others, &part_words(part, tree.pid, frames), room.width, usize::MAX);
        // A caller that does not fit is left out before anything is cut, and in a line alone the place before it is cut, too.
        let min_frames = usize::from(room.max_lines > 1);
        let whole = (min_frames..=MAX_FRAMES).rev().map(lines_of).find(|own| own.len() <= room.max_lines);
        let mut own = whole.unwrap_or_else(|| {
            wrap(&first, &others, &part_words(part, tree.pid, min_frames), room.width, room.max_lines)
        });
        if at == 0 && is_main(part) && !is_waiting {
            point_at(&mut own, &others, room);
        }
        lines.extend(own);
    }
    if has_rest {
        let what = if are_all { "small parts" } else { "other parts" };
        lines.push(format!("└─ {:>7} {rest:>3.0}%  {what}", time(tree.mean_ms * rest / 100.0)));
    }
    lines
}

/// Behind the last line, or on one of its own where there is room.
fn point_at(lines: &mut Vec<String>, indent: &str, room: Room) {
    match lines.last_mut() {
        Some(last) if last.chars().count() + ARROW.len() + 3 <= room.width => {
            *last += &format!("   {ARROW}");
        }
        _ if room.max_lines > 1 => lines.push(format!("{indent}{ARROW}")),
        _ => {}
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Running,
    /// It has no work for most of the time.
    Quiet,
    /// Its job hangs: the tree is of what was before.
    Hung,
}

fn state(tree: &StepTree, explained: &Explained) -> State {
    let is_hang =
        |finding: &&Finding| finding.causes.first().is_some_and(|share| share.class == Cause::RankHang);
    let hang = explained.findings.iter().find(is_hang);
    if hang.is_some_and(|hang| hang.pid == Some(tree.pid) || tree.rank.is_some()) {
        return State::Hung;
    }
    match explained.quiet.iter().any(|quiet| quiet.pid == tree.pid) {
        true => State::Quiet,
        false => State::Running,
    }
}

/// How long a step takes, and how busy the GPU is.
fn title(tree: &StepTree, is_one_of_many: bool, idle: &[Idle], state: State) -> String {
    let name = if is_one_of_many { format!("{}: ", name(tree)) } else { String::new() };
    let name = if state == State::Hung { format!("before the hang: {name}") } else { name };
    let is_mean_only = tree.median_ms == tree.mean_ms && tree.p99_ms == tree.mean_ms;
    let busy = busy(tree, idle);
    match &tree.found_by {
        Some(_) if is_mean_only => {
            format!("{name}step {} on average, {busy}; {} steps", time(tree.mean_ms), count(tree.count))
        }
        Some(_) => format!(
            "{name}step {}, {busy}; median {}, p99 {} of {} steps",
            time(tree.mean_ms),
            time(tree.median_ms),
            time(tree.p99_ms),
            count(tree.count)
        ),
        None if state == State::Quiet => {
            format!("{name}{}, mostly without work; {busy}", time(tree.median_ms))
        }
        None => format!("{name}{} of work, {busy}; no repeating step was found", time(tree.median_ms)),
    }
}

/// By its counter; else between the bounds that its streams give.
pub(super) fn busy(tree: &StepTree, idle: &[Idle]) -> String {
    let bounds = idle.iter().find(|idle| idle.pid == tree.pid);
    let bounds = bounds.and_then(|idle| idle.busy_lower_pct.zip(idle.busy_upper_pct));
    match (tree.gpu_busy_pct, &tree.gpu_busy_source, bounds) {
        (Some(pct), Some(source), _) => format!("GPU busy {pct:.0}% ({})", printable(source)),
        (Some(pct), None, _) => format!("GPU busy {pct:.0}%"),
        (None, _, Some((lower, upper))) if upper - lower < 1.0 => {
            format!("GPU busy {upper:.0}% (by its streams)")
        }
        (None, _, Some((lower, upper))) => format!("GPU busy {lower:.0} to {upper:.0}% (by its streams)"),
        (None, _, None) => "GPU use not measured".into(),
    }
}

/// A request in the time of the process: less than it lasted where several are served at once.
fn request_line(requests: &Requests) -> String {
    let steps = match requests.steps {
        Some(steps) if steps >= 10.0 => format!(", {} steps each", count(steps.round() as u64)),
        Some(steps) => format!(", {steps:.1} steps each"),
        None => String::new(),
    };
    format!(
        "request: {} of the loop's time each ({} finished{steps})",
        time(requests.ms),
        count(requests.count)
    )
}

/// Whether a part is what the loop waits for.
pub(crate) fn is_main(part: &PathPart) -> bool {
    part.share_pct >= MAIN_PCT && !matches!(part.class, Cause::LaunchBound | Cause::GpuWait)
}

/// What, who where it is another one, and the program's own lines.
pub(crate) fn part_line(part: &PathPart, pid: u32) -> String {
    part_words(part, pid, MAX_FRAMES)
}

/// Without frames, what it is alone.
fn part_words(part: &PathPart, pid: u32, frames: usize) -> String {
    let mut words = printable(&part.message);
    if part.process != pid {
        words += &format!(", {}[{}]", printable(&part.thread), part.process);
    }
    if frames == 0 {
        return words;
    }
    if !part.parts.is_empty() {
        let parts: Vec<String> =
            part.parts.iter().map(|part| format!("{} {}", printable(&part.message), time(part.ms))).collect();
        return format!("{words}: {}", parts.join(", "));
    }
    let own: Vec<String> =
        part.place.iter().filter(|line| !is_of_library(line)).take(frames).map(|line| short(line)).collect();
    match own.is_empty() {
        true => words,
        false => format!("{words} at {}", printable(&own.join(" < "))),
    }
}

/// Without the folders.
pub(super) fn short(line: &str) -> String {
    let folders = line.split(':').next().and_then(|file| file.rfind('/')).map_or(0, |at| at + 1);
    line[folders..].into()
}

/// A phase in a line: its largest parts.
fn phase_line(tree: &StepTree, what: &str) -> String {
    let parts: Vec<String> = tree
        .path
        .iter()
        .filter(|part| part.share_pct >= 10.0)
        .take(3)
        .map(|part| format!("{:.0}% {}", part.share_pct, printable(&part.message)))
        .collect();
    let parts = if parts.is_empty() { String::new() } else { format!(": {}", parts.join(", ")) };
    format!("{what}{parts}")
}
