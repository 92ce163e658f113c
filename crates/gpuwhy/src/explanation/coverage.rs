//! What a trace does not cover, in a line of plain words: as far as it matters to the answer it stands under.

use gpuwhy_model::units::{count, printable};
use gpuwhy_model::{Coverage, LossCount};
use gpuwhy_query::Explained;

/// As `Coverage: nothing lost; launches sampled 9% of the time: the budget is 1%`.
pub(super) fn line(explained: &Explained) -> String {
    let coverage = &explained.coverage;
    let lost = match coverage.lost {
        0 => "nothing lost".to_string(),
        n => format!("{} records LOST{}", count(n), by_place(&coverage.lost_by)),
    };
    let pids: Vec<u32> = explained
        .steps
        .iter()
        .map(|tree| tree.pid)
        .chain(explained.findings.iter().filter_map(|finding| finding.pid))
        .collect();
    let (first, left) = in_short(coverage, &pids);
    match first {
        None => format!("Coverage: {lost}, every call counted."),
        Some(first) => {
            let more = if left == 0 { String::new() } else { format!(" (+{left} in --verbose)") };
            format!("Coverage: {lost}; {}{more}", printable(&first))
        }
    }
}

/// Where and why records were lost: `: calls 120 (ring full)`; nothing where that is not known.
pub(crate) fn by_place(lost_by: &[LossCount]) -> String {
    const MAX_PLACES: usize = 2;
    let places: Vec<String> = lost_by
        .iter()
        .take(MAX_PLACES)
        .map(|place| {
            format!("{} {} ({})", count(place.count), printable(&place.probe), printable(&place.reason))
        })
        .collect();
    if places.is_empty() { String::new() } else { format!(": {}", places.join(", ")) }
}

/// The sentence that matters most, and how many more there are. `pids` are the processes the answer is about; none: about all.
fn in_short(coverage: &Coverage, pids: &[u32]) -> (Option<String>, usize) {
    let mut sentences: Vec<(u8, String)> = Vec::new();
    let sampled = sampled(&coverage.degraded);
    sentences.extend(sampled.clone().map(|sentence| (2, sentence)));
    sentences.extend(coverage.notes.iter().map(|note| (0, note.clone())));
    sentences.extend(coverage.missing.iter().map(|missing| (0, missing.clone())));
    sentences.extend(coverage.unattached.iter().map(|line| (1, not_attached(line))));
    for line in coverage.degraded.iter().filter(|line| share_of(line).is_none()) {
        // A share says more than that there is one.
        let sentence =
            degraded(line, pids).filter(|(_, sentence)| sampled.is_none() || !sentence.starts_with(NOT_ALL));
        if let Some(sentence) = sentence.filter(|new| sentences.iter().all(|(_, known)| known != &new.1)) {
            sentences.push(sentence);
        }
    }
    sentences.sort_by_key(|(rank, _)| *rank);
    let mut sentences: Vec<String> = sentences.into_iter().map(|(_, sentence)| sentence).collect();
    // How much was counted belongs to every answer, where there is room for it.
    let beside = sampled.filter(|sampled| {
        sentences.first().is_some_and(|first| first != sampled && first.len() + sampled.len() <= MAX_BOTH)
    });
    if let Some(sampled) = beside {
        sentences.retain(|sentence| *sentence != sampled);
        if let Some(first) = sentences.first_mut() {
            first.push_str(&format!("; {sampled}"));
        }
    }
    let left = sentences.len().saturating_sub(1);
    (sentences.into_iter().next(), left)
}

/// Bytes that fit into two lines of a terminal, with what stands before and behind them.
const MAX_BOTH: usize = 110;
const NOT_ALL: &str = "not all launches counted";
const OF_THE_TIME: &str = " of the time";

/// `launches sampled 9%` and `1%` of `launches sampled 9% of the time: the budget is 1%`.
fn share_of(line: &str) -> Option<(&str, &str)> {
    let (share, rest) = line.split_once(OF_THE_TIME).filter(|(share, _)| share.contains(" sampled "))?;
    let budget = rest.strip_prefix(": the budget is ");
    budget.or(rest.is_empty().then_some("")).map(|budget| (share, budget))
}

/// `launches sampled 9%, events 11% of the time: the budget is 1%`.
fn sampled(degraded: &[String]) -> Option<String> {
    let lines = degraded.iter().filter_map(|line| share_of(line));
    let (shares, budgets): (Vec<&str>, Vec<&str>) = lines.unzip();
    let (first, others) = shares.split_first()?;
    let others: String =
        others.iter().map(|share| format!(", {}", share.replacen(" sampled", "", 1))).collect();
    let why = match budgets.first().filter(|budget| !budget.is_empty()) {
        Some(budget) => format!(": the budget is {budget}"),
        None => ", to keep within the budget".into(),
    };
    Some(format!("{first}{others}{OF_THE_TIME}{why}"))
}

/// A line is `probe target in file: reason`. Nothing where it is about cost, or about a process that nobody asked about.
fn degraded(line: &str, pids: &[u32]) -> Option<(u8, String)> {
    let Some((what, reason)) = line.split_once(": ") else { return Some((1, line.into())) };
    let mut words = what.split_whitespace();
    let (probe, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let file = what.split_once(" in ").map(|(_, file)| file.rsplit('/').next().unwrap_or(file));
    // Dearer traps are no gap.
    if reason.contains("single-stepped") {
        return None;
    }
    let pid = reason.split_once("process ").map_or(what.split_once("process "), Some);
    let pid: Option<u32> = pid.and_then(|(_, rest)| {
        rest.split(|c: char| !c.is_ascii_digit()).next().and_then(|pid| pid.parse().ok())
    });
    if pid.is_some_and(|pid| !pids.is_empty() && !pids.contains(&pid)) {
        return None;
    }
    if probe == "governor" {
        let of = pid.map_or_else(String::new, |pid| format!(" of process {pid}"));
        let what = match reason {
            "no stacks are taken" => format!("no code lines of calls{of}"),
            "the function that is called most is not seen at all" => format!("{NOT_ALL}{of}"),
            "frequent calls are counted, not measured" => format!("launches{of} counted, not timed,"),
            "one in 16 of its frequent calls is measured, all are counted" => {
                format!("launches{of} counted, one in 16 timed,")
            }
            _ => format!("{reason}{of}"),
        };
        return Some((3, format!("{what} for a while, to keep within the budget")));
    }
    if reason.contains("too often for its budget") {
        return Some((3, format!("{NOT_ALL}, to keep within the budget")));
    }
    if let Some((late, _)) =
        reason.strip_prefix("attached ").and_then(|rest| rest.split_once(" after process "))
    {
        let (file, pid) = (file.unwrap_or(probe), pid.unwrap_or(0));
        return Some((4, format!("{file} was attached {late} after process {pid} loaded it")));
    }
    let target = if target == "*" { String::new() } else { format!(" {target}") };
    let file = file.map_or_else(String::new, |file| format!(" in {file}"));
    match probe {
        // The command that looks at all of it stands below.
        "answer" => {
            let short = reason.split_once("; `").map_or(reason, |(short, _)| short);
            Some((0, format!("the answer is {short}")))
        }
        // Its own words say all.
        "python" | "sched" => Some((2, reason.into())),
        _ => Some((2, format!("{probe}{target}{file}: {reason}"))),
    }
}

fn not_attached(line: &str) -> String {
    match line.split_once(": ") {
        Some((what, reason)) => {
            let (what, file) = what.split_once(" in ").unwrap_or((what, ""));
            let file = file.rsplit('/').next().unwrap_or(file);
            let what = what.trim_end_matches(" *");
            let of = if file.is_empty() { String::new() } else { format!(" in {file}") };
            format!("not traced: {what}{of}: {reason}")
        }
        None => format!("not traced: {line}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(degraded: &[&str], pids: &[u32]) -> (Option<String>, usize) {
        let degraded = degraded.iter().map(ToString::to_string).collect();
        in_short(&Coverage { degraded, ..Coverage::default() }, pids)
    }

    #[test]
    fn the_gap_that_matters_comes_first_in_plain_words() {
        let sliced = "launches sampled 9% of the time: the budget is 1%";
        let late = "cuda * in /venv/lib/libcudart.so.13: attached 48.1ms after process 7 mapped it; calls it made before that were not seen";
        assert_eq!(message(&[late, sliced], &[7]), (Some(sliced.into()), 1));
        let (only, _) = message(&[late], &[7]);
        assert_eq!(only.unwrap(), "libcudart.so.13 was attached 48.1ms after process 7 loaded it");
        // Of a process that the answer does not mention.
        assert_eq!(message(&[late], &[8]), (None, 0));
        let (all, left) = message(&[sliced, "events sampled 11% of the time: the budget is 1%"], &[7]);
        assert_eq!(
            all.unwrap(),
            "launches sampled 9%, events sampled 11% of the time: the budget is 1%"
                .replace("events sampled", "events")
        );
        assert_eq!(left, 0);
    }

    #[test]
    fn the_share_that_was_counted_is_a_number_where_it_is_known() {
        let unseen = "governor process 7: the function that is called most is not seen at all";
        let often = "cuda cuLaunchKernel in /lib/libcuda.so.1: process 7 calls it too often for its budget: detached for a while";
        let (first, left) = message(&[unseen, often, "launches sampled 71% of the time"], &[7]);
        assert_eq!(first.unwrap(), "launches sampled 71% of the time, to keep within the budget");
        assert_eq!(left, 0);
        let (first, _) = message(&[unseen, often], &[7]);
        assert!(first.unwrap().starts_with("not all launches counted"), "no share is known");
        // It is said beside what comes first.
        let sliced = "launches sampled 9% of the time: the budget is 1%";
        let coverage = Coverage {
            degraded: vec![sliced.into()],
            unattached: vec!["hip * in /opt/libamdhip64.so: refused".into()],
            ..Coverage::default()
        };
        let (first, left) = in_short(&coverage, &[7]);
        assert_eq!(first.unwrap(), format!("not traced: hip in libamdhip64.so: refused; {sliced}"));
        assert_eq!(left, 0);
    }

    #[test]
    fn an_answer_of_a_part_says_so_first_and_its_command_stands_below() {
        let part =
            "answer: of the last minute, as the trace is large; `gpuwhy explain 'a b.db'` looks at all of it";
        let (first, left) = message(&["launches sampled 9% of the time: the budget is 1%", part], &[7]);
        let words = "the answer is of the last minute, as the trace is large; launches sampled 9% of the time: the budget is 1%";
        assert_eq!(first.unwrap(), words);
        assert_eq!(left, 0);
    }

    #[test]
    fn what_only_costs_more_is_no_gap() {
        let dear = "nccl ncclBcast in /lib/libnccl.so.2: its first instructions must be single-stepped, which makes a trap several times dearer";
        assert_eq!(message(&[dear], &[7]), (None, 0));
        let (stacks, _) = message(&["governor process 576: no stacks are taken"], &[576]);
        assert_eq!(
            stacks.unwrap(),
            "no code lines of calls of process 576 for a while, to keep within the budget"
        );
        let (timed, _) = message(&["governor process 7: frequent calls are counted, not measured"], &[7]);
        let words = "launches of process 7 counted, not timed, for a while, to keep within the budget";
        assert_eq!(timed.unwrap(), words);
    }

    #[test]
    fn lost_records_say_where_and_why() {
        let place = |probe: &str, count| LossCount { probe: probe.into(), reason: "ring full".into(), count };
        assert_eq!(
            by_place(&[place("cuda", 1200), place("sched", 3)]),
            ": 1,200 cuda (ring full), 3 sched (ring full)"
        );
        assert_eq!(by_place(&[]), "");
    }
}
