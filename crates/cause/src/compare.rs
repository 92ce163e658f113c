//! Two traces side by side: rates, percentiles, blame and GPU counters of each operation, and which differences are beyond
//! what the traces themselves vary by.

use crate::evidence::{Evidence, OpSums};
use crate::tail::shares_by_cause;
use gpuwhy_model::{Cause, Histogram};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Comparison {
    /// Those with the largest change first; what only one side has comes last.
    pub operations: Vec<OpChange>,
    pub gpus: Vec<GpuChange>,
    /// What changed beyond noise, in sentences.
    #[serde(flatten, serialize_with = "gpuwhy_model::with_old_name")]
    pub message: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct OpChange {
    pub op: String,
    pub a: Option<OpSide>,
    pub b: Option<OpSide>,
    /// In percent of `a`.
    pub p50_change_pct: Option<f64>,
    pub p99_change_pct: Option<f64>,
    pub rate_change_pct: Option<f64>,
    /// The medians are further apart than chance and the buckets of the histogram explain.
    pub beyond_noise: bool,
    /// The same of the 99th percentiles.
    pub tail_beyond_noise: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct OpSide {
    /// Nothing, as their rate, where too little was watched to tell.
    pub calls: Option<u64>,
    pub calls_per_s: Option<f64>,
    pub errors: u64,
    pub p50_us: f64,
    pub p99_us: f64,
    pub p999_us: f64,
    pub max_us: f64,
    pub mean_us: f64,
    /// Where `calls` is an estimate: its interval, and how much was watched.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub calls_interval: Option<[u64; 2]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub watched_pct: Option<f64>,
    /// Share of the calls' time by cause, largest first.
    pub by_cause: Vec<(Cause, f64)>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct GpuChange {
    pub gpu: u32,
    pub counter: String,
    pub a: Option<f64>,
    pub b: Option<f64>,
}

pub fn compare(a: &Evidence, b: &Evidence) -> Comparison {
    let (left, right) = (by_op(a), by_op(b));
    let names: BTreeSet<&String> = left.keys().chain(right.keys()).collect();
    let mut operations: Vec<OpChange> =
        names.into_iter().map(|op| change(op, (a, left.get(op)), (b, right.get(op)))).collect();
    operations.sort_by(|x, y| weight(y).total_cmp(&weight(x)).then_with(|| x.op.cmp(&y.op)));
    let gpus = gpus(a, b);
    let message = message(&operations, &gpus);
    Comparison { operations, gpus, message }
}

/// All processes together: other processes ran in the other trace.
fn by_op(evidence: &Evidence) -> BTreeMap<String, OpSums> {
    let mut ops: BTreeMap<String, OpSums> = BTreeMap::new();
    for sums in evidence.sums.iter().chain(&evidence.stored) {
        ops.entry(sums.op.clone()).or_default().merge(sums);
    }
    ops
}

fn side(evidence: &Evidence, op: &str, sums: &OpSums) -> OpSide {
    let us = |ns: u64| ns as f64 / 1e3;
    let calls = (!sums.is_partial()).then_some(sums.count);
    OpSide {
        calls,
        calls_per_s: calls.map(|calls| calls as f64 / (evidence.span.ns().max(1) as f64 / 1e9)),
        errors: sums.errors,
        p50_us: us(sums.quantile_ns(0.5)),
        p99_us: us(sums.quantile_ns(0.99)),
        p999_us: us(sums.quantile_ns(0.999)),
        max_us: us(sums.max_ns),
        mean_us: us(sums.sum_ns) / sums.count.max(1) as f64,
        calls_interval: sums.interval(),
        watched_pct: sums.watched_pct,
        by_cause: shares_by_cause(evidence.ops.get(op), &sums.blame),
    }
}

fn change(op: &str, a: (&Evidence, Option<&OpSums>), b: (&Evidence, Option<&OpSums>)) -> OpChange {
    let (left, right) = (a.1.map(|sums| side(a.0, op, sums)), b.1.map(|sums| side(b.0, op, sums)));
    let both = left.as_ref().zip(right.as_ref());
    let of = |get: fn(&OpSide) -> Option<f64>| {
        let (a, b) = both.and_then(|(a, b)| get(a).zip(get(b)))?;
        (a > 0.0).then(|| 100.0 * (b - a) / a)
    };
    let hists = a.1.zip(b.1).map(|(a, b)| (&a.hist, &b.hist));
    OpChange {
        op: op.into(),
        p50_change_pct: of(|side| Some(side.p50_us)),
        p99_change_pct: of(|side| Some(side.p99_us)),
        rate_change_pct: of(|side| side.calls_per_s),
        beyond_noise: hists.is_some_and(|(a, b)| apart(a, b, 0.5)),
        tail_beyond_noise: hists.is_some_and(|(a, b)| apart(a, b, 0.99)),
        a: left,
        b: right,
    }
}

/// Whether two quantiles differ by more than chance: the intervals in which each lies with 99.9% (the ranks of a quantile
/// are spread as a binomial) do not touch, with a bucket of the histogram between them.
fn apart(a: &Histogram, b: &Histogram, q: f64) -> bool {
    const DEVIATIONS: f64 = 3.3;
    /// Fewer calls say nothing about such a quantile.
    const MIN: f64 = 10.0;
    const BUCKET: f64 = 1.125;
    let interval = |hist: &Histogram| {
        let n = hist.total() as f64;
        let spread = DEVIATIONS * (q * (1.0 - q) / n).sqrt();
        let enough = n * (1.0 - q) >= MIN;
        enough.then(|| {
            let at = |q: f64| hist.quantile_ns(q.clamp(0.0, 1.0)) as f64;
            (at(q - spread), at(q + spread))
        })
    };
    match (interval(a), interval(b)) {
        (Some((a_low, a_high)), Some((b_low, b_high))) => a_high * BUCKET < b_low || b_high * BUCKET < a_low,
        _ => false,
    }
}

/// By how much time an operation changed.
fn weight(change: &OpChange) -> f64 {
    let spent = |side: &OpSide| side.calls_per_s.map(|rate| rate * side.mean_us);
    let of = |side: &Option<OpSide>| side.as_ref().and_then(spent);
    of(&change.a).zip(of(&change.b)).map_or(-1.0, |(a, b)| (a - b).abs())
}

fn gpus(a: &Evidence, b: &Evidence) -> Vec<GpuChange> {
    let numbers: BTreeSet<u32> = a.gpus.iter().chain(&b.gpus).map(|gpu| gpu.gpu).collect();
    let mut changes = Vec::new();
    for number in numbers {
        let find = |side: &Evidence| side.gpus.iter().find(|gpu| gpu.gpu == number).cloned();
        let (left, right) = (find(a), find(b));
        let mut push = |counter: &str, get: fn(&crate::evidence::GpuSum) -> Option<f64>| {
            let (a, b) = (left.as_ref().and_then(get), right.as_ref().and_then(get));
            if a.is_some() || b.is_some() {
                changes.push(GpuChange { gpu: number, counter: counter.into(), a, b });
            }
        };
        push("sm_pct", |gpu| gpu.sm_pct);
        push("sm_clock_mhz", |gpu| gpu.clock_mhz);
        push("memory_used_bytes", |gpu| gpu.memory_used_bytes.map(|bytes| bytes as f64));
        push("power_mw", |gpu| gpu.power_mw.map(|power| power as f64));
        push("temperature_c", |gpu| gpu.temperature_c.map(f64::from));
    }
    changes
}

fn message(operations: &[OpChange], gpus: &[GpuChange]) -> Vec<String> {
    const MIN_PCT: f64 = 5.0;
    const MIN_POINTS: f64 = 10.0;
    const MIN_CALLS: u64 = 100;
    let mut message = Vec::new();
    for change in operations {
        let quantiles = [
            ("p50", change.beyond_noise, change.p50_change_pct),
            ("p99", change.tail_beyond_noise, change.p99_change_pct),
        ];
        for (quantile, beyond, pct) in quantiles {
            if let Some(pct) = pct.filter(|pct| beyond && pct.abs() >= MIN_PCT) {
                message.push(format!("{} is {} at {quantile}{}", change.op, by_how_much(pct), why(change)));
                break;
            }
        }
        // What is called once or twice comes and goes with where a trace begins, and what is watched in slices with them.
        let many =
            |side: &OpSide| side.calls.filter(|calls| side.watched_pct.is_none() && *calls >= MIN_CALLS);
        match (&change.a, &change.b) {
            (Some(a), None) => {
                message.extend(many(a).map(|calls| format!("{} is gone: {calls} calls before", change.op)));
            }
            (None, Some(b)) => {
                message.extend(many(b).map(|calls| format!("{} is new: {calls} calls", change.op)));
            }
            _ => {}
        }
    }
    for change in gpus.iter().filter(|change| change.counter == "sm_pct") {
        if let (Some(a), Some(b)) = (change.a, change.b)
            && (a - b).abs() >= MIN_POINTS
        {
            message.push(format!("GPU {} was busy {b:.0}% of the time, {a:.0}% before", change.gpu));
        }
    }
    message
}

fn by_how_much(pct: f64) -> String {
    const MANY_PCT: f64 = 300.0;
    match pct {
        pct if pct >= MANY_PCT => format!("{:.0} times slower", 1.0 + pct / 100.0),
        pct if pct > 0.0 => format!("{pct:.0}% slower"),
        pct => format!("{:.0}% faster", -pct),
    }
}

/// The cause whose share rose most.
fn why(change: &OpChange) -> String {
    const MIN_POINTS: f64 = 10.0;
    let (Some(a), Some(b)) = (&change.a, &change.b) else { return String::new() };
    let before =
        |cause: Cause| a.by_cause.iter().find(|(known, _)| *known == cause).map_or(0.0, |(_, pct)| *pct);
    let most = b
        .by_cause
        .iter()
        .map(|(cause, pct)| (*cause, *pct, before(*cause)))
        .max_by(|x, y| (x.1 - x.2).total_cmp(&(y.1 - y.2)));
    match most {
        Some((cause, now, before)) if now - before >= MIN_POINTS => {
            format!(": {} is {now:.0}% of its time, {before:.0}% before", cause.name())
        }
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpuwhy_model::{Estimate, Span};

    fn evidence(calls: impl Iterator<Item = u64>, runq_ns: u64) -> Evidence {
        let mut sums = OpSums { pid: 7, op: "cuLaunchKernel".into(), ..OpSums::default() };
        for ns in calls {
            sums.hist.record(ns);
            sums.count += 1;
            sums.sum_ns += ns;
            sums.max_ns = sums.max_ns.max(ns);
        }
        sums.blame.runq_ns = runq_ns;
        sums.blame.oncpu_ns = sums.sum_ns - runq_ns;
        Evidence {
            span: Span { start_ns: 0, end_ns: 1_000_000_000 },
            sums: vec![sums],
            ..Evidence::default()
        }
    }

    #[test]
    fn a_count_of_too_little_that_was_watched_is_unknown() {
        let one = evidence((0..500).map(|_| 4_000), 0);
        let mut two = one.clone();
        two.sums[0].watched_pct = Some(4.0);
        let sliced = compare(&one, &two);
        let side = sliced.operations[0].b.as_ref().unwrap();
        assert_eq!((side.calls, side.calls_per_s, side.watched_pct), (None, None, Some(4.0)));
        assert_eq!(sliced.operations[0].rate_change_pct, None);
        two.sums.clear();
        assert_eq!(compare(&two, &one).message, ["cuLaunchKernel is new: 500 calls"]);
        let mut estimated = one.clone();
        estimated.sums[0].estimate =
            Some(Estimate { value: 500.0, low: 480.0, high: 520.0, watched_pct: 4.0 });
        estimated.sums[0].watched_pct = Some(4.0);
        let mut partial = one.sums[0].clone();
        partial.watched_pct = Some(4.0);
        estimated.sums.push(partial);
        assert_eq!(
            compare(&one, &estimated).operations[0].b.as_ref().unwrap().calls,
            None,
            "of one process nobody knows"
        );
    }

    #[test]
    fn the_same_has_no_change_beyond_noise() {
        let one = evidence((0..5000).map(|n| 4_000 + n % 700), 0);
        let two = evidence((0..4000).map(|n| 4_010 + (n * 7) % 690), 0);
        let comparison = compare(&one, &two);
        assert!(!comparison.operations[0].beyond_noise);
        assert!(comparison.message.is_empty(), "{:?}", comparison.message);
    }

    #[test]
    fn slower_calls_are_said_with_what_grew() {
        let one = evidence((0..5000).map(|n| 4_000 + n % 700), 0);
        let two = evidence((0..5000).map(|n| 8_000 + n % 700), 20_000_000);
        let comparison = compare(&one, &two);
        assert!(comparison.operations[0].beyond_noise);
        assert!(
            comparison.message[0].contains("slower at p50: cpu.preempted is"),
            "{:?}",
            comparison.message
        );
        // And the other way round.
        assert!(compare(&two, &one).message[0].contains("faster"));
    }

    #[test]
    fn a_handful_of_calls_proves_nothing() {
        let one = evidence([4_000, 4_100, 4_200].into_iter(), 0);
        let two = evidence([9_000, 9_100, 9_200].into_iter(), 0);
        assert!(!compare(&one, &two).operations[0].beyond_noise);
    }
}
