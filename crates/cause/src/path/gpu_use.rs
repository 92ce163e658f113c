//! How busy the GPU of a process was in its loop, and who else used it.

use crate::activity::{Activity, BusySample};
use crate::evidence::Evidence;
use crate::severity::percent;
use gpuwhy_model::Span;
use std::collections::BTreeMap;

/// What the synchronisations of a process prove of its streams.
pub(super) fn proven_busy(evidence: &Evidence, pid: u32) -> f64 {
    let times = evidence.gpu_times.iter().filter(|time| time.pid == pid);
    let (window, lower) = times.fold((0, 0), |(window, lower), time| {
        (window + time.window_ns, lower + time.busy_lower_ns.min(time.window_ns))
    });
    percent(lower, window)
}

/// The mean of the GPU's own counter over the loop. A sample tells of the second before it: of one that is partly of the start, in
/// which the GPU has little to do, the loop's part is so much busier.
pub(super) fn busy(activity: &Activity, pid: u32, span: Span) -> Option<f64> {
    const SECOND: u64 = 1_000_000_000;
    let of_process = || activity.busy.iter().filter(|sample| sample.pid == pid);
    let of_loop = |sample: &BusySample| {
        let share = sample.time_ns.saturating_sub(span.start_ns) as f64 / SECOND as f64;
        (sample.pct / share.clamp(0.25, 1.0)).min(100.0)
    };
    let within = |from: u64| {
        let values: Vec<f64> = of_process()
            .filter(|sample| sample.time_ns >= from && sample.time_ns <= span.end_ns + SECOND / 4)
            .map(of_loop)
            .collect();
        (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
    };
    within(span.start_ns + SECOND).or_else(|| within(span.start_ns + SECOND / 4))
}

/// What said how busy the GPU was.
pub(super) fn busy_source(activity: &Activity, pid: u32, span: Span) -> &'static str {
    let mut samples = activity
        .busy
        .iter()
        .filter(|sample| sample.pid == pid && (span.start_ns..=span.end_ns).contains(&sample.time_ns))
        .peekable();
    let are_of_engine = samples.peek().is_some() && samples.all(|sample| sample.is_of_engine);
    if are_of_engine { "its engine counter" } else { "its counter" }
}

/// Who else used the GPU for a good part of the loop.
pub(super) fn sharers(activity: &Activity, pid: u32, span: Span) -> Vec<u32> {
    const MIN_CALLS: u64 = 50;
    let mut others: BTreeMap<u32, (u64, u64)> = BTreeMap::new();
    for caller in activity.callers.values().filter(|caller| caller.pid != pid) {
        let overlap = caller.last_ns.min(span.end_ns).saturating_sub(caller.first_ns.max(span.start_ns));
        let other = others.entry(caller.pid).or_default();
        *other = (other.0 + caller.calls, other.1.max(overlap));
    }
    let shares_gpu = |other: u32| match (activity.gpus.get(&pid), activity.gpus.get(&other)) {
        (Some(mine), Some(theirs)) => mine.intersection(theirs).next().is_some(),
        _ => false,
    };
    let is_one = |(other, (calls, overlap)): &(u32, (u64, u64))| {
        *calls >= MIN_CALLS && *overlap * 2 >= span.ns() && shares_gpu(*other)
    };
    others.into_iter().filter(is_one).map(|(other, _)| other).collect()
}
