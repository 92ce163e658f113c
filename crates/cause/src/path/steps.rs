//! Turns of a loop: how long they take, and those that take far longer than the others.

use super::noise::{StepNoise, noise};
use super::parts::{Divider, Parts};
use super::period::Period;
use super::stalls::stalls;
use super::walk::Segment;
use gpuwhy_model::Span;

#[derive(Debug)]
pub(crate) struct Turns {
    pub(crate) count: u64,
    /// Each of them is recorded.
    pub(crate) is_complete: bool,
    pub(crate) mean_ns: u64,
    pub(crate) median_ns: u64,
    pub(crate) p99_ns: u64,
    /// Where each is recorded and there are enough of them.
    pub(crate) noise: Option<StepNoise>,
}

/// One turn with its own path, or a stall where turns are not known.
#[derive(Debug)]
pub(crate) struct Turn {
    pub(crate) span: Span,
    pub(crate) parts: Parts,
}

/// A turn is an outlier from so many medians on,
const TIMES_MEDIAN: u64 = 4;
/// and so much longer than the median: less is what a busy host does.
const MIN_EXCESS_NS: u64 = 60_000_000;
/// Outliers with a path of their own.
const MAX_OUTLIERS: usize = 64;

/// The turns, and those far longer than the others, longest first. `counted`: how many there were, where they are counted
/// exactly and not each is recorded.
pub(crate) fn turns(
    period: &Period,
    span: Span,
    counted: Option<u64>,
    divider: &Divider<'_>,
    path: &[Segment],
) -> (Turns, Vec<Turn>) {
    if let Some(count) = counted.filter(|_| period.is_count_only()) {
        let mean_ns = span.ns() / count.max(1);
        let turns =
            Turns { count, is_complete: false, mean_ns, median_ns: mean_ns, p99_ns: mean_ns, noise: None };
        return (turns, stalls(divider, path, span));
    }
    let times: Vec<u64> =
        period.times.iter().copied().filter(|time| (span.start_ns..=span.end_ns).contains(time)).collect();
    let mut lengths: Vec<u64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
    // Of a thread that waits often only the first ones of each half second are recorded: what lies between is no turn.
    let counted = counted.filter(|counted| *counted * 10 > lengths.len() as u64 * 11);
    let sum: u64 = lengths.iter().sum();
    let noise = if counted.is_none() { noise(&lengths) } else { None };
    lengths.sort_unstable();
    if counted.is_some() {
        let median = lengths.get(lengths.len() / 2).copied().unwrap_or(0);
        lengths.retain(|length| *length <= median * TIMES_MEDIAN);
    }
    let quantile = |q: f64| {
        let at = ((lengths.len().saturating_sub(1)) as f64 * q).round() as usize;
        lengths.get(at).copied().unwrap_or(0)
    };
    let median_ns = quantile(0.5);
    let limit = (median_ns * TIMES_MEDIAN).max(median_ns + MIN_EXCESS_NS);
    let mut outliers: Vec<Span> = times
        .windows(2)
        .filter(|pair| pair[1] - pair[0] > limit)
        .map(|pair| Span { start_ns: pair[0], end_ns: pair[1] })
        .collect();
    outliers.sort_by_key(|span| std::cmp::Reverse(span.ns()));
    outliers.truncate(MAX_OUTLIERS);
    let mean_ns = match counted {
        // Counted over the whole span, recorded in parts of it.
        Some(counted) => span.ns() / counted.max(1),
        None => sum / lengths.len().max(1) as u64,
    };
    // Where the recorded ones are longer than all, they are not what the others are like.
    let are_alike = counted.is_none() || median_ns <= mean_ns * 3 / 2;
    let turns = Turns {
        count: counted.unwrap_or(lengths.len() as u64),
        is_complete: counted.is_none(),
        mean_ns,
        median_ns: if are_alike { median_ns } else { mean_ns },
        p99_ns: if are_alike { quantile(0.99) } else { mean_ns },
        noise,
    };
    // What lies between two recorded turns may be many that were not recorded: there windows of time tell.
    let outliers = match counted {
        Some(_) => stalls(divider, path, span),
        None => outliers.into_iter().map(|span| Turn { span, parts: divider.parts(path, span) }).collect(),
    };
    (turns, outliers)
}

#[cfg(test)]
mod tests {
    use crate::activity::{Activity, Beat, BeatCount, BeatKind, BusySample, Caller, Syscall, ThreadSample};
    use crate::evidence::{Evidence, OpSums};
    use crate::explain;
    use gpuwhy_model::{Blame, Family, Histogram, Layer, OpId, OpInfo, Part, Role, Severity, Span};

    const MS: u64 = 1_000_000;

    /// A loop of 2 s that launches a few short kernels and waits for them, 2,000 times a second. Of each half second the first 50
    /// synchronisations are recorded; the GPU is busy while it is waited for.
    fn synchronises(busy_pct: f64) -> Evidence {
        let sync = OpInfo {
            id: OpId(9),
            name: "cudaStreamSynchronize".into(),
            layer: Layer::Cuda,
            family: Family::Sync,
            waits_for_gpu: true,
            role: Role::None,
        };
        let (pid, kind, key) = (1, BeatKind::Synchronisation, 9);
        let windows = (0..4).map(|window| window * 500 * MS);
        let beats = windows.clone().flat_map(|start| {
            (0..50).map(move |n| Beat { pid, kind, key, counted_as: key, time_ns: start + n * MS / 2 + 1 })
        });
        let counts = windows.map(|window_start_ns| BeatCount { window_start_ns, count: 1_000 }).collect();
        // Four of five samples are in the call that waits.
        let sample = |n: u64| ThreadSample {
            time_ns: n * 20 * MS + 10 * MS,
            pid,
            tid: 1,
            part: Part::OnCpu,
            op: if n.is_multiple_of(5) { OpId::NONE } else { sync.id },
            stack_id: None,
            weight_ns: 20 * MS,
            in_gc: false,
            syscall: Syscall::Other,
            in_fault: false,
        };
        let mut hist = Histogram::default();
        (0..4_000).for_each(|_| hist.record(400_000));
        let waited = Blame { oncpu_ns: 1_600 * MS, ..Blame::default() };
        Evidence {
            span: Span { start_ns: 0, end_ns: 2_000 * MS },
            sums: vec![OpSums {
                pid,
                op: sync.name.clone(),
                last_ns: 2_000 * MS,
                count: 4_000,
                sum_ns: waited.oncpu_ns,
                max_ns: 400_000,
                hist,
                blame: waited,
                ..OpSums::default()
            }],
            activity: Activity {
                samples: (0..100).map(sample).collect(),
                beats: beats.collect(),
                beat_counts: [((pid, kind, key), counts)].into(),
                callers: [(1, Caller { pid, calls: 24_000, first_ns: 0, last_ns: 2_000 * MS })].into(),
                busy: [1, 2]
                    .map(|second| BusySample {
                        pid,
                        time_ns: second * 1_000 * MS,
                        pct: busy_pct,
                        is_of_engine: false,
                    })
                    .into(),
                ..Activity::default()
            },
            ops: [(sync.name.clone(), sync)].into(),
            ..Evidence::default()
        }
    }

    #[test]
    fn a_loop_that_waits_for_its_own_busy_gpu_raises_no_alarm_and_has_no_stall() {
        let found = explain(&synchronises(95.0));
        let tree = found.steps.iter().find(|tree| tree.phase == "loop").unwrap();
        assert!(tree.outliers.is_empty(), "{tree:?}");
        assert!((tree.mean_ms - 0.5).abs() < 0.01, "{tree:?}");
        for finding in &found.findings {
            assert_eq!(finding.severity, Severity::Low, "{}", finding.title);
        }
        assert_eq!(found.findings[0].by_design.as_deref(), Some("GPU bound"));
    }

    #[test]
    fn a_loop_that_launches_and_waits_in_turns_is_built_that_way_though_its_gpu_has_pauses() {
        let found = explain(&synchronises(75.0));
        assert!(found.findings.iter().all(|finding| finding.severity == Severity::Low), "{found:?}");
    }

    #[test]
    fn the_engines_counter_is_named_where_it_tells() {
        let mut evidence = synchronises(95.0);
        let source = |evidence: &Evidence| explain(evidence).steps[0].gpu_busy_source.clone();
        assert_eq!(source(&evidence).as_deref(), Some("its counter"));
        evidence.activity.busy.iter_mut().for_each(|sample| sample.is_of_engine = true);
        assert_eq!(source(&evidence).as_deref(), Some("its engine counter"));
    }

    #[test]
    fn a_wait_for_a_gpu_that_is_mostly_idle_costs() {
        let found = explain(&synchronises(30.0));
        assert_eq!(found.findings[0].severity, Severity::High);
        assert_eq!(found.findings[0].by_design, None);
    }
}
