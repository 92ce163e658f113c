//! A finding in a few lines: what and when, why and by whom, where, what to do. Each part is whole, or left out where there is no room.

use super::wrap::{cut, wrap};
use super::{Style, place, severity, steps, touched_steps};
use crate::shell;
use gpuwhy_model::units::{clock, printable};
use gpuwhy_model::{CauseShare, Finding};

const INDENT: &str = "            ";
const OF_TITLE: &str = "   ";
/// Longer ones are cut.
const TITLE_LINES: usize = 3;
const WHY_LINES: usize = 2;
const WHEN_LINES: usize = 2;
const FIX_LINES: usize = 2;

/// How much of a finding is shown: each has what those before it have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Detail {
    Title,
    /// What to do, in a line.
    Fix,
    Why,
    /// All of what to do first, with the command.
    Whole,
    Place,
}

/// The parts of a finding, as lines.
#[derive(Debug)]
pub(super) struct Brief {
    title: Vec<String>,
    why: Vec<String>,
    place: Vec<String>,
    short_fix: Vec<String>,
    fix: Vec<String>,
}

impl Brief {
    pub(super) fn of(number: usize, finding: &Finding, file: &str, style: Style, width: usize) -> Brief {
        let title = printable(&finding.title);
        let when = match title.contains(" UTC") {
            true => String::new(),
            false => format!("; from {}", clock(finding.window.start_ns)),
        };
        let words = format!("{}{when}", without_step(&title));
        let mut lines = wrap(INDENT, OF_TITLE, &words, width, TITLE_LINES);
        if let Some(first) = lines.first_mut() {
            let title = first.trim_start().to_string();
            *first = format!("{number:>2} {} {title}", severity(finding, style));
        }
        let why = finding.causes.first().map(|share| why(share, finding, &title));
        let why = why.map_or_else(Vec::new, |why| wrap("   why      ", INDENT, &why, width, WHY_LINES));
        let (short_fix, fix) = fix_lines(finding, file, width);
        Brief { why, place: place_lines(finding, &title, width), short_fix, fix, title: lines }
    }

    pub(super) fn lines(&self, detail: Detail) -> Vec<String> {
        let fix = if detail >= Detail::Whole { &self.fix } else { &self.short_fix };
        let parts = [
            (Detail::Title, &self.title),
            (Detail::Why, &self.why),
            (Detail::Place, &self.place),
            (Detail::Fix, fix),
        ];
        let shown = parts.into_iter().filter(|(from, _)| *from <= detail);
        shown.flat_map(|(_, lines)| lines.iter().cloned()).collect()
    }

    pub(super) fn height(&self, detail: Detail) -> usize {
        self.lines(detail).len()
    }
}

/// As `30.1ms a step (74%)` of `30.1ms of each step of 40.5ms (74%)`: how long a step is stands above.
fn without_step(title: &str) -> String {
    let (Some((before, after)), true) = (title.split_once(" of each step of "), title.ends_with("%)")) else {
        return title.into();
    };
    after.rsplit_once(" (").map_or_else(|| title.into(), |(_, share)| format!("{before} a step ({share}"))
}

/// Where in the code, and in which steps.
fn place_lines(finding: &Finding, title: &str, width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(place) = place(finding) {
        let frames = without_folders(&printable(&place));
        // The title has the innermost line already, where there is one.
        let is_said = frames.split(" < ").next().is_some_and(|first| title.contains(first));
        if !is_said {
            lines.push(format!("   where    {}", fitting(&frames, width.saturating_sub(INDENT.len()))));
        }
    }
    if let Some(touched) = finding.steps.first() {
        let words = printable(&touched_steps(touched));
        lines.extend(wrap("   when     ", INDENT, &words, width, WHEN_LINES));
    }
    lines
}

/// What to do first: in a line, and whole.
fn fix_lines(finding: &Finding, file: &str, width: usize) -> (Vec<String>, Vec<String>) {
    const LABEL: &str = "   do       ";
    let Some(fix) = finding.fixes.first() else { return (Vec::new(), Vec::new()) };
    let (words, command) = shell::advice(fix, file);
    let room = width.saturating_sub(INDENT.len());
    // One that does not fit into a line cannot be pasted from here; --verbose has it.
    let command = command.filter(|command| command.chars().count() <= room);
    if words.is_empty() {
        let line: Vec<String> = command.map(|command| format!("{LABEL}{command}")).into_iter().collect();
        return (line.clone(), line);
    }
    let mut whole = wrap(LABEL, INDENT, &words, width, FIX_LINES);
    whole.extend(command.map(|command| format!("{INDENT}{command}")));
    (vec![format!("{LABEL}{}", clause(&words, room))], whole)
}

/// As many of its clauses as fit into a line.
fn clause(words: &str, width: usize) -> String {
    let ends = words.match_indices([',', ';', ':']).map(|(at, _)| at).chain([words.len()]);
    let fits = |at: &usize| words[..*at].chars().count() <= width;
    match ends.filter(|at| *at > 0).take_while(fits).last() {
        Some(at) => words[..at].into(),
        None => cut(words, width),
    }
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
    fn the_length_of_a_step_is_not_said_again() {
        let title = "python3[7] is asleep in fetch at jobs.py:24 fetch: 30.1ms of each step of 40.5ms (74%)";
        let short = "python3[7] is asleep in fetch at jobs.py:24 fetch: 30.1ms a step (74%)";
        assert_eq!(without_step(title), short);
        for same in ["simwork[7] waits", "1ms of each step of 2ms", "a of each step of b (c%) d"] {
            assert_eq!(without_step(same), same);
        }
    }

    #[test]
    fn as_many_clauses_are_shown_as_fit() {
        let words = "do it ahead of time (num_workers), in vectorised code, or on the GPU";
        assert_eq!(clause(words, 80), words);
        assert_eq!(clause(words, 60), "do it ahead of time (num_workers), in vectorised code");
        assert_eq!(clause(words, 40), "do it ahead of time (num_workers)");
        assert_eq!(clause(words, 20), "do it ahead of time…");
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
