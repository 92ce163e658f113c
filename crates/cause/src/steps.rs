//! Which steps, epochs or requests a finding falls into: those that have most of its lost time.

use crate::evidence::{Evidence, LostAt, Mark};
use crate::when::{Known, descends, losses_of, within};
use gpuwhy_model::{Finding, Span, Touched};
use std::collections::{BTreeMap, BTreeSet};

/// The fewest marks with so much of what lies in any of them are named.
const MAX_SHARE: f64 = 0.9;
/// And those with so much of what the least of them has: of thirteen that are alike not one is left out.
const AS_BAD: f64 = 0.5;
/// Ranges named; what has more is scattered.
const MAX_RANGES: usize = 8;
/// Names of marks told for a finding.
const MAX_EVENTS: usize = 4;

pub(crate) fn report_steps(evidence: &Evidence, findings: &mut [Finding]) {
    if evidence.marks.is_empty() {
        return;
    }
    for finding in findings {
        let mut touched: Vec<Touched> = marks_of(evidence, finding)
            .into_values()
            .filter_map(|marks| touched(evidence, finding, &lasting(marks)))
            .collect();
        // What says most comes first: few of many.
        let part = |touched: &Touched| touched.count as f64 / touched.of.max(1) as f64;
        touched.sort_by(|a, b| part(a).total_cmp(&part(b)).then_with(|| a.event.cmp(&b.event)));
        touched.truncate(MAX_EVENTS);
        finding.steps = touched;
    }
}

/// By name: its own process's, else those of the process that started it, else those that are about all.
fn marks_of<'a>(evidence: &'a Evidence, finding: &Finding) -> BTreeMap<&'a str, Vec<&'a Mark>> {
    let mut all: BTreeMap<&str, Vec<&Mark>> = BTreeMap::new();
    for mark in &evidence.marks {
        all.entry(&mark.event).or_default().push(mark);
    }
    let Some(pid) = finding.pid else { return all };
    let uid = evidence.processes.iter().rfind(|process| process.pid == pid).map(|process| process.uid);
    let mut related: BTreeMap<u32, bool> = BTreeMap::new();
    for marks in all.values_mut() {
        let own: Vec<&Mark> = marks.iter().copied().filter(|mark| mark.pid == Some(pid)).collect();
        let mut is_parent =
            |other: u32| *related.entry(other).or_insert_with(|| descends(evidence, pid, other));
        *marks = if own.is_empty() {
            let about = |mark: &&&Mark| match mark.pid {
                Some(other) => is_parent(other),
                None => mark.uid == 0 || Some(mark.uid) == uid,
            };
            marks.iter().filter(about).copied().collect()
        } else {
            own
        };
    }
    all.retain(|_, marks| !marks.is_empty());
    all
}

/// A mark with its time: a moment lasts until the next of its name and process.
struct Lasting<'a> {
    mark: &'a Mark,
    span: Span,
}

/// In the order of their beginning.
fn lasting(mut marks: Vec<&Mark>) -> Vec<Lasting<'_>> {
    marks.sort_by(|a, b| (a.start_ns, a.end_ns, &a.value).cmp(&(b.start_ns, b.end_ns, &b.value)));
    let mut next: BTreeMap<Option<u32>, u64> = BTreeMap::new();
    let mut lasting: Vec<Lasting<'_>> = marks
        .into_iter()
        .rev()
        .map(|mark| {
            let until = next.insert(mark.pid, mark.start_ns).unwrap_or(u64::MAX);
            let end_ns = if mark.end_ns > mark.start_ns { mark.end_ns } else { until };
            Lasting { mark, span: Span { start_ns: mark.start_ns, end_ns } }
        })
        .collect();
    lasting.reverse();
    lasting
}

fn touched(evidence: &Evidence, finding: &Finding, marks: &[Lasting<'_>]) -> Option<Touched> {
    let losses = losses_of(evidence, finding, Known::Finely);
    let (chosen, share_pct) = if losses.is_empty() {
        let window = finding.window;
        let overlaps = |span: &Span| span.start_ns <= window.end_ns && span.end_ns >= window.start_ns;
        let chosen: BTreeSet<usize> = (0..marks.len()).filter(|at| overlaps(&marks[*at].span)).collect();
        // That it was all the time says nothing.
        (Some(chosen).filter(|chosen| !chosen.is_empty() && chosen.len() < marks.len())?, None)
    } else {
        let total: f64 = losses.iter().map(|lost| lost.ns as f64).sum();
        let parts = shared_out(marks, &losses);
        let left = losses.iter().map(|lost| lost.ns as f64).collect();
        let (chosen, taken) = fewest(&parts, left);
        (Some(chosen).filter(|chosen| !chosen.is_empty())?, Some(100.0 * taken / total.max(1.0)))
    };
    let values: BTreeSet<&str> = marks.iter().map(|lasting| lasting.mark.value.as_str()).collect();
    // That it was in the only one there is says nothing.
    if values.len() < 2 {
        return None;
    }
    let named: BTreeSet<&str> = chosen.iter().map(|at| marks[*at].mark.value.as_str()).collect();
    Some(Touched {
        event: marks.first()?.mark.event.clone(),
        values: in_words(marks, &chosen),
        count: named.len() as u64,
        of: values.len() as u64,
        share_pct: share_pct.map(|share| share.min(100.0)),
    })
}

/// What of each loss is in each mark: for each mark, the losses by number and how much of them.
type Parts = Vec<Vec<(usize, f64)>>;

fn shared_out(marks: &[Lasting<'_>], losses: &[&LostAt]) -> Parts {
    /// Marks that lie over each other are looked at back to here.
    const MAX_AT_ONCE: usize = 1024;
    // How far any of the marks up to here reaches.
    let reach: Vec<u64> = marks
        .iter()
        .scan(0, |reach, lasting| {
            *reach = lasting.span.end_ns.max(*reach);
            Some(*reach)
        })
        .collect();
    let mut parts: Parts = vec![Vec::new(); marks.len()];
    for (number, lost) in losses.iter().enumerate() {
        let behind = marks.partition_point(|lasting| lasting.span.start_ns < lost.end_ns);
        for at in (0..behind).rev().take(MAX_AT_ONCE) {
            if reach[at] <= lost.start_ns {
                break;
            }
            let ns = within(lost, &marks[at].span);
            if ns > 0.0 {
                parts[at].push((number, ns));
            }
        }
    }
    parts
}

/// The fewest marks that have most of the losses, and how much they have. What lies in several counts once.
fn fewest(parts: &Parts, mut left: Vec<f64>) -> (BTreeSet<usize>, f64) {
    let sum = |at: usize| parts[at].iter().map(|(_, ns)| ns).sum::<f64>();
    let mut order: Vec<usize> = (0..parts.len()).filter(|at| !parts[*at].is_empty()).collect();
    order.sort_by(|a, b| sum(*b).total_cmp(&sum(*a)).then(a.cmp(b)));
    let mut take = |at: usize| -> f64 {
        parts[at]
            .iter()
            .map(|(lost, ns)| {
                let taken = ns.min(left[*lost]);
                left[*lost] -= taken;
                taken
            })
            .sum()
    };
    let taken: Vec<(usize, f64)> = order.into_iter().map(|at| (at, take(at))).collect();
    let all: f64 = taken.iter().map(|(_, ns)| ns).sum();
    let mut chosen = BTreeSet::new();
    let (mut so_far, mut least) = (0.0, 0.0);
    for (at, ns) in taken {
        let is_needed = so_far < MAX_SHARE * all;
        if ns > 0.0 && (is_needed || ns >= AS_BAD * least) {
            least = if is_needed { ns } else { least };
            chosen.insert(at);
            so_far += ns;
        }
    }
    (chosen, so_far)
}

/// `140-152, 160`: numbers that follow each other in time are a range.
fn in_words(marks: &[Lasting<'_>], chosen: &BTreeSet<usize>) -> String {
    let value = |at: usize| marks[at].mark.value.as_str();
    let is_number = |at: usize| value(at).parse::<i64>().is_ok();
    let mut ranges: Vec<(usize, usize)> = Vec::new();
    for at in chosen {
        match ranges.last_mut() {
            Some((_, last)) if value(*last) == value(*at) => *last = *at,
            Some((_, last)) if *last + 1 == *at && is_number(*last) && is_number(*at) => *last = *at,
            _ => ranges.push((*at, *at)),
        }
    }
    let mut words: Vec<String> = Vec::new();
    for (first, last) in ranges {
        let word = match value(first) == value(last) {
            true => value(first).to_string(),
            false => format!("{}-{}", value(first), value(last)),
        };
        if !words.contains(&word) {
            words.push(word);
        }
    }
    let more = words.len().saturating_sub(MAX_RANGES);
    words.truncate(MAX_RANGES);
    let mut text = words.join(", ");
    if more > 0 {
        text += &format!(" and {more} more");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpuwhy_model::{Cause, CauseShare, Impact, Place, Process, Severity};

    fn finding(pid: Option<u32>) -> Finding {
        let share = CauseShare {
            class: Cause::IoBlock,
            share_pct: 100.0,
            ms: 1.0,
            by: Vec::new(),
            evidence: Vec::new(),
        };
        Finding {
            id: String::new(),
            rule: String::new(),
            severity: Severity::High,
            title: String::new(),
            op: Some("cudaMalloc".into()),
            pid,
            process: None,
            cgroup: None,
            rank: None,
            node: None,
            window: Span { start_ns: 0, end_ns: 1000 },
            impact: Impact { excess_ms: 1e-3, ..Impact::default() },
            causes: vec![share],
            explained_pct: 100.0,
            place: Place::default(),
            fixes: Vec::new(),
            refuted_by: String::new(),
            sql: String::new(),
            steps: Vec::new(),
            phase: None,
            saves_ms_per_step: None,
            saves_ms_interval: None,
            by_design: None,
        }
    }

    /// Ten steps of 100 ns each.
    fn steps(pid: Option<u32>) -> Vec<Mark> {
        let step = |n: u64| Mark {
            event: "step".into(),
            value: (140 + n).to_string(),
            pid,
            start_ns: 100 * n,
            end_ns: 100 * n + 100,
            uid: 0,
        };
        (0..10).map(step).collect()
    }

    fn lost(start_ns: u64, end_ns: u64, ns: u64) -> LostAt {
        LostAt { pid: 7, op: Some("cudaMalloc".into()), cause: None, start_ns, end_ns, ns }
    }

    fn reported(evidence: &Evidence, pid: Option<u32>) -> Vec<Touched> {
        let mut findings = [finding(pid)];
        report_steps(evidence, &mut findings);
        let [finding] = findings;
        finding.steps
    }

    fn values(evidence: &Evidence) -> Vec<String> {
        reported(evidence, Some(7)).into_iter().map(|touched| touched.values).collect()
    }

    #[test]
    fn the_steps_with_most_of_the_lost_time_are_named() {
        let losses = vec![lost(210, 290, 800), lost(310, 390, 800), lost(710, 720, 400), lost(900, 950, 10)];
        let evidence = Evidence { marks: steps(Some(7)), losses, ..Evidence::default() };
        let [touched] = reported(&evidence, Some(7)).try_into().unwrap();
        assert_eq!((touched.event.as_str(), touched.values.as_str()), ("step", "142-143, 147"));
        assert_eq!((touched.count, touched.of), (3, 10));
        assert!((touched.share_pct.unwrap() - 99.5).abs() < 0.1, "{touched:?}");
    }

    #[test]
    fn a_call_over_two_steps_is_in_both() {
        let losses = vec![lost(150, 250, 1000)];
        let evidence = Evidence { marks: steps(Some(7)), losses, ..Evidence::default() };
        assert_eq!(values(&evidence), ["141-142"]);
    }

    #[test]
    fn without_marks_nothing_is_said_and_without_losses_the_window_tells() {
        assert!(values(&Evidence::default()).is_empty());
        let evidence = Evidence { marks: steps(Some(7)), ..Evidence::default() };
        assert!(values(&evidence).is_empty(), "all the time says nothing");
        let mut late = [finding(None)];
        late[0].window = Span { start_ns: 850, end_ns: 1000 };
        report_steps(&evidence, &mut late);
        assert_eq!((late[0].steps[0].values.as_str(), late[0].steps[0].share_pct), ("148-149", None));
    }

    #[test]
    fn moments_last_until_the_next_and_requests_lie_over_each_other() {
        let moment = |n: u64| Mark { end_ns: 100 * n, ..steps(Some(7))[n as usize].clone() };
        let marks = (0..10).map(moment).collect();
        let evidence = Evidence { marks, losses: vec![lost(330, 340, 5)], ..Evidence::default() };
        assert_eq!(values(&evidence), ["143"]);
        let request = |value: &str, start_ns, end_ns| Mark {
            event: "request".into(),
            value: value.into(),
            pid: Some(7),
            uid: 0,
            start_ns,
            end_ns,
        };
        let marks = vec![request("a", 0, 1000), request("b", 300, 400), request("c", 500, 600)];
        let evidence = Evidence { marks, losses: vec![lost(330, 340, 5)], ..Evidence::default() };
        let [touched] = reported(&evidence, Some(7)).try_into().unwrap();
        assert_eq!((touched.values.as_str(), touched.share_pct), ("a", Some(100.0)), "counted once");
    }

    #[test]
    fn marks_are_of_the_process_of_its_parent_or_of_all() {
        let losses = vec![lost(210, 290, 800)];
        let process = |pid, parent_pid, uid| Process { pid, parent_pid, uid, ..Process::default() };
        let processes = vec![process(5, 1, 1000), process(7, 5, 1000)];
        let of = |marks: Vec<Mark>| {
            values(&Evidence {
                marks,
                losses: losses.clone(),
                processes: processes.clone(),
                ..Evidence::default()
            })
        };
        assert_eq!(of(steps(Some(5))), ["142"], "of the server that started it");
        assert!(of(steps(Some(8))).is_empty(), "of somebody else");
        let of_user = |uid| steps(None).into_iter().map(|mark| Mark { uid, ..mark }).collect::<Vec<_>>();
        assert_eq!(of(of_user(0)), ["142"]);
        assert_eq!(of(of_user(1000)), ["142"]);
        assert!(of(of_user(2000)).is_empty(), "another user's");
        // Its own go before those of others.
        let renamed = |mark: Mark| Mark { value: format!("own {}", mark.value), ..mark };
        let both = steps(None).into_iter().chain(steps(Some(7)).into_iter().map(renamed)).collect();
        assert_eq!(of(both), ["own 142"]);
    }

    #[test]
    fn what_was_lost_in_half_seconds_is_told_by_its_causes() {
        let attributed =
            |cause, start_ns, ns| LostAt { cause: Some(cause), ..lost(start_ns, start_ns + 50, ns) };
        // The slow calls have less than half of it.
        let losses = vec![
            lost(0, 10, 100),
            attributed(Cause::IoBlock, 600, 900),
            attributed(Cause::CpuSelf, 200, 90_000),
        ];
        let evidence = Evidence { marks: steps(Some(7)), losses, ..Evidence::default() };
        assert_eq!(values(&evidence), ["146"]);
    }

    #[test]
    fn scattered_steps_are_counted() {
        let marks: Vec<Mark> = (0..40)
            .map(|n| Mark {
                value: n.to_string(),
                start_ns: 100 * n,
                end_ns: 100 * n + 100,
                ..steps(Some(7))[0].clone()
            })
            .collect();
        let losses = (0..20).map(|n| lost(200 * n, 200 * n + 10, 10)).collect();
        let [text] = values(&Evidence { marks, losses, ..Evidence::default() }).try_into().unwrap();
        assert!(text.starts_with("0, 2, 4, 6, 8, 10, 12, 14 and 12 more"), "{text}");
    }
}
