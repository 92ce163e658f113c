//! Verdicts in numbers and in a sentence.

use super::job::Job;
use super::judge::Charge;
use super::present::Present;
use super::regression::Slower;
use super::{CauseReading, PlaceReading, Reading, Signal, Verdict, VerdictKind};
use gpuwhy_model::Cause;

/// A cause is named if a rank loses so much more of its time to it than its peers.
const CAUSE_SHARE: f64 = 0.01;

pub(super) fn straggler(
    job: &Job,
    present: &Present<'_>,
    rank: usize,
    peers: &[usize],
    charge: Charge,
    step: Option<f64>,
    nranks: usize,
) -> Verdict {
    let (evidence, member) = (charge.evidence, present.members[rank]);
    let unit = match (charge.signal, step) {
        // Without a step there is only the share of the time.
        (Signal::LateSeconds, None) => "1",
        _ => charge.signal.unit(),
    };
    let mut verdict = Verdict {
        kind: VerdictKind::Straggler,
        cluster: job.cluster.to_string(),
        job: job.name.clone(),
        rank: present.whos[rank].rank(),
        node: Some(member.node.clone()),
        since_ns: present.now_ns,
        signal: charge.signal,
        value: charge.median + charge.scale * evidence.excess,
        median: charge.median,
        threshold: charge.median + charge.scale * evidence.threshold,
        unit,
        excess_share: evidence.excess,
        score: evidence.score,
        cause: None,
        place: None,
        readings: readings(present, rank, peers),
        ranks: peers.len(),
        nranks,
        message: String::new(),
    };
    verdict.cause = cause(present, rank, peers);
    verdict.place = place(present, rank, peers, verdict.cause.as_ref());
    verdict.message = message(&verdict);
    verdict
}

fn readings(present: &Present<'_>, rank: usize, peers: &[usize]) -> Vec<Reading> {
    let mut readings: Vec<Reading> = present.members[rank]
        .signals
        .keys()
        .filter_map(|signal| {
            let value = present.recent(rank, *signal)?;
            let median = present.median(peers, *signal)?;
            Some(Reading { signal: *signal, value, median, unit: signal.unit() })
        })
        .collect();
    let apart = |reading: &Reading| (reading.value - reading.median).abs() / reading.median.abs().max(1e-3);
    readings.sort_by(|a, b| apart(b).total_cmp(&apart(a)));
    readings
}

/// What it loses more time to than its peers.
fn cause(present: &Present<'_>, rank: usize, peers: &[usize]) -> Option<CauseReading> {
    let signals = present.members[rank].signals.keys();
    signals
        .filter_map(|signal| {
            let Signal::Blame(class) = *signal else { return None };
            let share = present.recent(rank, *signal)?;
            let median = present.median(peers, *signal)?;
            let by_itself = matches!(class, Cause::SelfSleep | Cause::CpuSelf | Cause::NetWait);
            let is_cause = class.is_taken() || by_itself;
            (is_cause && share - median >= CAUSE_SHARE).then_some(CauseReading { class, share, median })
        })
        .max_by(|a, b| (a.share - a.median).total_cmp(&(b.share - b.median)))
}

/// Where it is more often than its peers; if it can be, for what it loses more time to than they do.
fn place(
    present: &Present<'_>,
    rank: usize,
    peers: &[usize],
    cause: Option<&CauseReading>,
) -> Option<PlaceReading> {
    let readings = present.members[rank].places.all().map(|(class, line, share)| {
        let others = peers.iter().filter(|peer| **peer != rank);
        let mut others: Vec<f64> =
            others.map(|peer| present.members[*peer].places.share(class, line)).collect();
        let median = crate::robust::median(&mut others).unwrap_or(0.0);
        PlaceReading { class, line: line.into(), share, median }
    });
    let is_of_cause = |place: &PlaceReading| cause.is_some_and(|cause| belongs(place.class, cause.class));
    readings.filter(|place| place.share > place.median).max_by(|a, b| {
        let excess = |place: &PlaceReading| place.share - place.median;
        is_of_cause(a).cmp(&is_of_cause(b)).then(excess(a).total_cmp(&excess(b)))
    })
}

/// What is seen of a cause at a single moment.
fn belongs(seen: Cause, cause: Cause) -> bool {
    match cause {
        // That segments were lost shows afterwards.
        Cause::NetTcp => seen == Cause::NetWait,
        // Who uses its quota up, or is interrupted, is ready to run, or runs.
        Cause::CpuThrottled | Cause::CpuInterrupt => matches!(seen, Cause::CpuPreempted | Cause::CpuSelf),
        cause => seen == cause,
    }
}

fn message(verdict: &Verdict) -> String {
    let who = match (verdict.rank, &verdict.node) {
        (Some(rank), Some(node)) if !node.is_empty() => format!("rank {rank} on {node}"),
        (Some(rank), _) => format!("rank {rank}"),
        (None, node) => node.clone().unwrap_or_default(),
    };
    let peers = verdict.ranks.saturating_sub(1);
    let pct = 100.0 * verdict.excess_share;
    let value = amount(verdict.value, verdict.unit);
    let what = match verdict.signal {
        Signal::LateSeconds if verdict.unit == "s" => {
            format!("keeps its {peers} peers waiting for {pct:.1}% of the time, {value} a step")
        }
        Signal::LateSeconds => format!("keeps its {peers} peers waiting for {pct:.1}% of the time"),
        Signal::Blame(class) => format!(
            "loses {:.1}% of its time to {}, its {peers} peers {:.1}%",
            100.0 * verdict.value,
            class.name(),
            100.0 * verdict.median
        ),
        signal => {
            let median = amount(verdict.median, verdict.unit);
            format!("is an outlier among {} ranks: {signal} is {value}, the median {median}", verdict.ranks)
        }
    };
    let cause = match &verdict.cause {
        Some(cause) if verdict.signal != Signal::Blame(cause.class) => format!(
            "; it loses {:.1}% of its time to {}, its peers {:.1}%",
            100.0 * cause.share,
            cause.class.name(),
            100.0 * cause.median
        ),
        _ => String::new(),
    };
    let place = verdict.place.as_ref().map_or_else(String::new, |place| format!(", at {}", place.line));
    format!("{who} {what}{cause}{place}")
}

fn amount(value: f64, unit: &str) -> String {
    match unit {
        "s" if value.abs() < 1.0 => format!("{:.1} ms", value * 1e3),
        "s" => format!("{value:.2} s"),
        "Hz" => format!("{:.0} MHz", value / 1e6),
        "1" => format!("{value:.3}"),
        unit => format!("{value:.3} {unit}"),
    }
}

pub(super) fn regression(
    job: &Job,
    slower: &Slower,
    stragglers: &[Verdict],
    ranks: usize,
    nranks: usize,
) -> Verdict {
    let share = slower.value / slower.past - 1.0;
    let because = match stragglers.iter().find_map(|verdict| verdict.rank) {
        Some(rank) => format!("; rank {rank} drags the others"),
        None => "; no rank stands out, so look for what all share".into(),
    };
    let signal = Signal::StepSeconds;
    Verdict {
        kind: VerdictKind::Regression,
        cluster: job.cluster.to_string(),
        job: job.name.clone(),
        rank: None,
        node: None,
        since_ns: slower.since_ns,
        signal,
        value: slower.value,
        median: slower.past,
        threshold: slower.threshold,
        unit: signal.unit(),
        excess_share: share,
        score: 0.0,
        cause: None,
        place: None,
        readings: Vec::new(),
        ranks,
        nranks,
        message: format!(
            "all ranks are {:.0}% slower than before: a step takes {}, it took {}{because}",
            100.0 * share,
            amount(slower.value, "s"),
            amount(slower.past, "s"),
        ),
    }
}
