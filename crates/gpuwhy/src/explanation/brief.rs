//! A finding in three or four lines: what and when, why and by whom, where, what to do. Each part is whole, or left out where there is no room.

use super::wrap::{cut, wrap};
use super::{Style, place, severity, steps, touched_steps};
use crate::shell;
use gpuwhy_model::units::{clock, printable};
use gpuwhy_model::{CauseShare, Finding};

const INDENT: &str = "            ";
const OF_TITLE: &str = "   ";
const DO: &str = "   do       ";
/// A finding has no more lines, unless its title alone has as many as it may.
const LINES: usize = 4;
/// Longer ones are cut.
const TITLE_LINES: usize = 3;
/// Beside the title there is always room for why, and for what to do.
const BESIDE_TITLE: usize = 2;

/// How much of a finding is shown: each has what those before it have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Detail {
    Title,
    /// What to do, in a line.
    Fix,
    /// Why, and where in the code, in a line.
    Why,
    /// All that a finding has lines for.
    Whole,
}

/// The parts of a finding, as lines.
#[derive(Debug)]
pub(super) struct Brief {
    title: Vec<String>,
    why: Vec<String>,
    /// With the line of code that the title lacks; the same where it has one.
    why_and_where: Vec<String>,
    place: Vec<String>,
    when: Vec<String>,
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
        let room = width.saturating_sub(INDENT.len());
        let line = |label: &str, words: &str| format!("   {label:<9}{}", cut(words, room));
        let place = place_beside(finding, &title);
        let share = finding.causes.first();
        let why = |place: Option<&str>| -> Vec<String> {
            share.map(|share| line("why", &why(share, finding, &title, place, room))).into_iter().collect()
        };
        let when = finding.steps.first().map(|touched| printable(&touched_steps(touched)));
        let (short_fix, fix) = fix_lines(finding, file, width);
        Brief {
            why: why(None),
            why_and_where: why(place.as_deref()),
            place: place.iter().map(|frames| line("where", &fitting(frames, room))).collect(),
            when: when.map_or_else(Vec::new, |words| wrap("   when     ", INDENT, &words, width, LINES)),
            short_fix,
            fix,
            title: lines,
        }
    }

    pub(super) fn lines(&self, detail: Detail) -> Vec<String> {
        let mut left = LINES.max(self.title.len() + BESIDE_TITLE) - self.title.len();
        let mut parts = vec![&self.title];
        if detail < Detail::Fix {
            return self.title.clone();
        }
        left -= self.short_fix.len();
        if detail >= Detail::Why {
            left -= self.why.len();
        }
        let mut fits = |lines: usize| {
            let fits = detail == Detail::Whole && lines > 0 && lines <= left;
            left -= if fits { lines } else { 0 };
            fits
        };
        let has_place = fits(self.place.len());
        let has_fix = fits(self.fix.len().saturating_sub(self.short_fix.len()));
        let has_when = fits(self.when.len());
        if detail >= Detail::Why {
            parts.push(if has_place { &self.why } else { &self.why_and_where });
        }
        parts.extend(has_place.then_some(&self.place));
        parts.extend(has_when.then_some(&self.when));
        parts.push(if has_fix { &self.fix } else { &self.short_fix });
        parts.into_iter().flatten().cloned().collect()
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

/// Where in the code, where the title does not say so.
fn place_beside(finding: &Finding, title: &str) -> Option<String> {
    let frames = without_folders(&printable(&place(finding)?));
    let is_said = frames.split(" < ").any(|frame| title.contains(frame));
    (!is_said).then_some(frames)
}

/// What to do first: in a line, and whole.
fn fix_lines(finding: &Finding, file: &str, width: usize) -> (Vec<String>, Vec<String>) {
    let Some(fix) = finding.fixes.first() else { return (Vec::new(), Vec::new()) };
    let (words, command) = shell::advice(fix, file);
    let room = width.saturating_sub(INDENT.len());
    // One that does not fit into a line cannot be pasted from here; --verbose has it.
    let command = command.filter(|command| command.chars().count() <= room);
    let in_a_line = |words: &str, command: &str| {
        let line = format!("{words}: {command}");
        (line.chars().count() <= room).then_some(line)
    };
    let one = match &command {
        Some(command) if words.is_empty() => Some(command.clone()),
        Some(command) => in_a_line(&words, command),
        None if words.is_empty() => return (Vec::new(), Vec::new()),
        None => None,
    };
    if let Some(one) = one {
        let line = vec![format!("{DO}{one}")];
        return (line.clone(), line);
    }
    // A command says by itself what it does; words alone cannot be pasted.
    let short = vec![format!("{DO}{}", command.clone().unwrap_or_else(|| clause(&words, room)))];
    let mut whole = wrap(DO, INDENT, &words, width, LINES);
    whole.extend(command.map(|command| format!("{INDENT}{command}")));
    (short, whole)
}

/// As many of its clauses as fit into a line.
fn clause(words: &str, width: usize) -> String {
    let ends = words.match_indices([',', ';', ':']).map(|(at, _)| at);
    let others = [" or ", " and ", " ("];
    let others = others.iter().flat_map(|other| words.match_indices(other)).map(|(at, _)| at);
    // What is in brackets is whole, or left out.
    let is_whole = |words: &str| words.matches('(').count() == words.matches(')').count();
    let fits = |at: &usize| *at > 0 && words[..*at].chars().count() <= width && is_whole(&words[..*at]);
    match ends.chain(others).chain([words.len()]).filter(fits).max() {
        Some(at) => words[..at].trim_end_matches([',', ';', ':']).into(),
        None => cut(words, width),
    }
}

/// The main cause, and who was behind it where the title has not named them; then the place that the title lacks, else a word of evidence.
fn why(share: &CauseShare, finding: &Finding, title: &str, place: Option<&str>, room: usize) -> String {
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
    let class = match share.share_pct {
        pct if pct >= 99.5 => share.class.name().to_string(),
        pct => format!("{} {pct:.0}%", share.class.name()),
    };
    let fits = |line: &String| line.chars().count() <= room;
    if let Some(place) = place {
        let before = format!("{class}{by}, at ");
        let frames = fitting(place, room.saturating_sub(before.chars().count()));
        let line = format!("{before}{frames}");
        // A frame that is cut is none.
        if fits(&line) && place.starts_with(&frames) {
            return line;
        }
    }
    let line = format!("{class}: {}{by}", share.class.about());
    let evidence = share.evidence.first().map(|evidence| printable(evidence));
    let with_evidence = evidence
        .filter(|evidence| !title.contains(evidence.as_str()))
        .map(|evidence| format!("{line}; {evidence}"));
    [with_evidence, Some(line)].into_iter().flatten().find(fits).unwrap_or(format!("{class}{by}"))
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
        assert_eq!(clause(words, 20), "do it ahead of time");
        assert_eq!(clause(words, 10), "do it ahe…");
        assert_eq!(clause("into a process (torch, fork), or into C", 25), "into a process");
        let graphs = "CUDA graphs: torch.compile(mode=\"reduce-overhead\") or torch.cuda.graph";
        assert_eq!(clause(graphs, 60), "CUDA graphs: torch.compile(mode=\"reduce-overhead\")");
        assert_eq!(clause("wait for it, or do it later", 15), "wait for it");
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
