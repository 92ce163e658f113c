//! What batches become on the page: nothing is counted twice, forgotten, or told of who is gone.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may only fail")]

use gpuwhy_metrics::{Format, State};
use gpuwhy_model::{
    Batch, Blame, CallInFlight, CallWindow, Cause, CauseShare, Facts, Family, Finding, Histogram, Impact,
    Layer, MemoryKind, MemoryUse, OpId, OpInfo, Place, Process, Role, Severity, Span,
};
use std::collections::BTreeMap;

const S: u64 = 1_000_000_000;

fn state() -> State {
    let op = OpInfo {
        id: OpId(1),
        name: "ncclAllReduce".into(),
        layer: Layer::Nccl,
        family: Family::Collective,
        waits_for_gpu: false,
        role: Role::None,
    };
    State::new("node7", S, &[op], false)
}

/// The samples of a metric, by their labels.
fn samples(state: &State, name: &str) -> BTreeMap<String, f64> {
    let page = String::from_utf8(Format::Text.page(state)).unwrap();
    let lines = page.lines().filter_map(|line| line.rsplit_once(' '));
    let of_metric = lines.filter_map(|(series, value)| {
        let labels = series.strip_prefix(name)?;
        let labels = if labels.is_empty() { "" } else { labels.strip_prefix('{')?.strip_suffix('}')? };
        Some((labels.to_string(), value.parse().unwrap()))
    });
    of_metric.collect()
}

fn process(pid: u32, comm: &str) -> Process {
    Process { pid, comm: comm.into(), start_ns: S, ..Process::default() }
}

fn calls(pid: u32, count: u64) -> CallWindow {
    let mut hist = Histogram::default();
    (0..count).for_each(|_| hist.record(5_000));
    CallWindow {
        window_start_ns: S,
        window_ns: S / 2,
        pid,
        tid: pid,
        op: OpId(1),
        direction: None,
        count,
        errors: 0,
        kept: 0,
        bytes: 0,
        sum_ns: 5_000 * count,
        min_ns: 5_000,
        max_ns: 5_000,
        blame: Blame::default(),
        hist,
        cost_ns: 0,
        beside_ns: 0,
        slice: 0,
    }
}

fn memory(pid: u32, live_bytes: u64, allocated_bytes: u64) -> MemoryUse {
    MemoryUse {
        time_ns: S,
        pid,
        gpu: Some(0),
        kind: MemoryKind::Device,
        live_bytes,
        peak_bytes: live_bytes,
        live_count: 1,
        allocated_bytes,
        freed_bytes: 0,
        failures: 0,
    }
}

fn take(state: &mut State, processes: Vec<Process>, windows: Vec<CallWindow>, memory: Vec<MemoryUse>) {
    let batch = Batch { processes, windows, ..Batch::default() };
    state.take(&batch, &Facts { memory, ..Facts::default() });
}

#[test]
fn memory_of_who_is_gone_is_not_live_but_was_allocated() {
    let mut state = state();
    let both = vec![process(1, "python3"), process(2, "python3")];
    take(&mut state, both, Vec::new(), vec![memory(1, 100, 100), memory(2, 50, 50)]);
    let labels = "kind=\"device\",gpu=\"0\",process=\"python3\"";
    let live = |state: &State| samples(state, "gpuwhy_memory_live_bytes")[labels];
    assert_eq!(live(&state), 150.0);
    take(&mut state, Vec::new(), Vec::new(), vec![memory(1, 30, 130)]);
    assert_eq!(live(&state), 80.0);
    take(&mut state, vec![Process { end_ns: Some(2 * S), ..process(1, "python3") }], Vec::new(), Vec::new());
    assert_eq!(live(&state), 50.0);
    // Its number is given to another, whose sums begin anew.
    take(&mut state, vec![process(1, "python3")], Vec::new(), vec![memory(1, 7, 7)]);
    assert_eq!(live(&state), 57.0);
    assert_eq!(samples(&state, "gpuwhy_memory_allocated_bytes_total")[labels], 187.0);
    assert_eq!(samples(&state, "gpuwhy_processes")[""], 2.0);
}

#[test]
fn a_rank_that_becomes_known_later_splits_the_series_and_loses_nothing() {
    let mut state = state();
    take(&mut state, vec![process(1, "python3")], vec![calls(1, 3)], Vec::new());
    let ranked = Process { rank: Some(7), ..process(1, "python3") };
    take(&mut state, vec![ranked], vec![calls(1, 4)], Vec::new());
    let expected = [
        ("op=\"ncclAllReduce\",process=\"python3\"".to_string(), 3.0),
        ("op=\"ncclAllReduce\",process=\"python3\",rank=\"7\"".to_string(), 4.0),
    ];
    assert_eq!(samples(&state, "gpuwhy_calls_total"), BTreeMap::from(expected));
}

/// Many short programs with names of their own, one after the other and all at once.
#[test]
fn however_many_programs_there_are_series_are_bounded_and_sums_exact() {
    let mut state = state();
    let mut total = 0;
    for pid in 1..=300u32 {
        let name = format!("job{pid}");
        take(&mut state, vec![process(pid, &name)], vec![calls(pid, 2)], Vec::new());
        total += 2;
        if pid % 2 == 0 {
            let ended = Process { end_ns: Some(u64::from(pid) * S), ..process(pid, &name) };
            take(&mut state, vec![ended], vec![calls(pid, 1)], Vec::new());
            total += 1;
        }
    }
    for name in ["gpuwhy_calls_total", "gpuwhy_call_duration_seconds_count"] {
        let series = samples(&state, name);
        assert!(series.len() <= 65, "{}", series.len());
        assert_eq!(series.values().sum::<f64>(), f64::from(total), "{name}");
    }
}

#[test]
fn calls_in_flight_show_while_they_last() {
    let mut state = state();
    let mut call = CallInFlight {
        start_ns: S,
        pid: 1,
        tid: 1,
        op: OpId(1),
        stream: 0,
        handle: 0,
        comm_id_hash: None,
        rank: None,
        nranks: None,
        seq: None,
        seen_ns: 2 * S,
        ended_ns: None,
        stack_id: None,
        line: None,
    };
    let batch = Batch { processes: vec![process(1, "python3")], ..Batch::default() };
    state.take(&batch, &Facts { in_flight: vec![call.clone()], ..Facts::default() });
    state.see_probes(4 * S, &[]);
    let labels = "op=\"ncclAllReduce\",process=\"python3\"";
    assert_eq!(samples(&state, "gpuwhy_calls_in_flight")[labels], 1.0);
    assert_eq!(samples(&state, "gpuwhy_calls_in_flight_longest_seconds")[labels], 3.0);
    call.ended_ns = Some(5 * S);
    state.take(&Batch::default(), &Facts { in_flight: vec![call], ..Facts::default() });
    state.see_probes(6 * S, &[]);
    assert_eq!(samples(&state, "gpuwhy_calls_in_flight")[labels], 0.0);
    assert_eq!(samples(&state, "gpuwhy_calls_in_flight_longest_seconds")[labels], 0.0);
}

#[test]
fn a_finding_is_told_once_and_again_when_it_is_worse() {
    let finding = |severity| Finding {
        id: "preempted/1".into(),
        rule: "preempted".into(),
        severity,
        title: String::new(),
        op: None,
        pid: Some(1),
        process: None,
        cgroup: None,
        rank: None,
        node: None,
        window: Span::default(),
        impact: Impact::default(),
        causes: vec![CauseShare {
            class: Cause::CpuPreempted,
            share_pct: 100.0,
            ms: 1.0,
            by: Vec::new(),
            evidence: Vec::new(),
        }],
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
    };
    let mut state = state();
    let reported: Vec<usize> = [Severity::Medium, Severity::Medium, Severity::Critical, Severity::Medium]
        .into_iter()
        .map(|severity| state.see_findings(&[finding(severity)]).len())
        .collect();
    assert_eq!(reported, [1, 0, 1, 0]);
    state.see_findings(&[]);
    let label = |severity: &str| format!("class=\"cpu.preempted\",severity=\"{severity}\"");
    let counted = samples(&state, "gpuwhy_findings_total");
    assert_eq!((counted[&label("medium")], counted[&label("critical")]), (1.0, 1.0));
    assert!(samples(&state, "gpuwhy_findings_active").values().all(|active| *active == 0.0));
}
