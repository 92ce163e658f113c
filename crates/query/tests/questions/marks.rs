//! Steps in findings, and servers beside them.

use crate::made::{SECOND, START, ask, attributed, call, columns, ops, refused, rows, trace, window};
use gpuwhy_model::{
    Annotation, Batch, Blame, Bucket, Call, Cause, Facts, Latency, MarkClock, MarkState, Process,
    ServerSample, Signal,
};
use gpuwhy_store::{Options, Reader, SessionInfo, Writer};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use tempfile::TempDir;

/// A step of half a second.
fn step(number: u64) -> Annotation {
    Annotation {
        time_ns: START + number * SECOND / 2,
        duration_ns: Some(SECOND / 2),
        state: MarkState::Ended,
        event: "step".into(),
        value: Some(number.to_string()),
        labels: BTreeMap::new(),
        pid: Some(10),
        uid: 0,
        clock: MarkClock::Annotator,
    }
}

fn sample(second: u64) -> ServerSample {
    let upper_us = if second == 5 { 900_000.0 } else { 20_000.0 };
    let buckets = vec![Bucket { lower_us: 10_000.0, upper_us: Some(upper_us), count: 10 }];
    ServerSample {
        time_ns: START + (second + 1) * SECOND,
        window_ns: SECOND,
        server: "vllm".into(),
        url: "http://127.0.0.1:8000/metrics".into(),
        pid: Some(10),
        latencies: BTreeMap::from([(Signal::Ttft, Latency { count: 10, sum_us: 1e5, buckets })]),
        ..ServerSample::default()
    }
}

/// Ten seconds of launches; in the sixth second they are kept from the CPU.
fn slow_sixth_second(annotations: Vec<Annotation>, server_samples: Vec<ServerSample>) -> (TempDir, Reader) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace.db");
    let session = SessionInfo { start_ns: START, ..SessionInfo::default() };
    let mut writer = Writer::create_or_append(&path, &session, &ops(), &Options::default()).unwrap();
    let process = Process { pid: 10, start_ns: START, comm: "train".into(), ..Process::default() };
    let mut batch = Batch { processes: vec![process], annotations, server_samples, ..Batch::default() };
    let mut blame = Vec::new();
    for second in 0..10 {
        if second == 5 {
            let parts = Blame { runq_ns: 60_000_000, oncpu_ns: 10_000, ..Blame::default() };
            let slow = |n: u64| Call {
                start_ns: START + 5 * SECOND + n * 80_000_000,
                duration_ns: 60_010_000,
                blame: parts,
                ..call(5, 1, 10)
            };
            batch.calls.extend((0..10).map(slow));
            let mut sums = window(second, 1, 10, 60_010_000);
            sums.blame = Blame { runq_ns: 600_000_000, oncpu_ns: 100_000, ..Blame::default() };
            batch.windows.push(sums);
            blame.push(attributed(5, 1, Cause::CpuPreempted, (99, "hog"), 600_000_000));
        } else {
            batch.windows.push(window(second, 1, 10, 10_000));
        }
    }
    writer.write(&batch, &Facts { blame, ..Facts::default() }).unwrap();
    writer.finish(START + 10 * SECOND).unwrap();
    let reader = Reader::open(&path).unwrap();
    (folder, reader)
}

fn explained(reader: &Reader) -> Value {
    let mut answer = ask(reader, "explain", Value::Null).unwrap();
    answer["trace"] = Value::Null;
    answer
}

#[test]
fn a_finding_says_which_steps_lost_the_time() {
    let (_folder, reader) = slow_sixth_second((0..20).map(step).collect(), Vec::new());
    let answer = explained(&reader);
    let touched = &answer["findings"][0]["steps"][0];
    assert_eq!((&touched["event"], &touched["values"]), (&"step".into(), &"10-11".into()), "{answer}");
    assert_eq!((&touched["count"], &touched["of"]), (&2.into(), &20.into()));
    assert!(answer.get("servers").is_none());
}

#[test]
fn without_marks_the_answer_is_as_it_was() {
    let (_one, plain) = slow_sixth_second(Vec::new(), Vec::new());
    let answer = explained(&plain);
    assert!(answer["findings"][0].get("steps").is_none() && answer.get("servers").is_none());
    // Marks change nothing but what they add.
    let (_two, marked) = slow_sixth_second((0..20).map(step).collect(), Vec::new());
    let mut without = explained(&marked);
    for finding in without["findings"].as_array_mut().unwrap() {
        finding.as_object_mut().unwrap().remove("steps");
    }
    assert_eq!(without, answer);
}

#[test]
fn what_was_lost_while_a_server_was_slow_stands_beside_it() {
    let (_folder, reader) = slow_sixth_second(Vec::new(), (0..10).map(sample).collect());
    let server = &explained(&reader)["servers"][0];
    assert_eq!((&server["samples"], &server["pid"]), (&10.into(), &10.into()));
    assert_eq!(server["latencies"]["ttft"]["p99"]["upper_us"], 900_000.0);
    let worst = &server["worst"][0];
    assert_eq!(worst["else_p99"]["upper_us"], 20_000.0);
    let found = &worst["findings"][0];
    assert_eq!(found["same_process"], true, "{worst}");
    assert!(found["share_pct"].as_f64().unwrap() > 99.0 && found["ms"].as_f64().unwrap() > 500.0, "{found}");
}

#[test]
fn marks_and_samples_are_listed() {
    let open = Annotation {
        state: MarkState::Open,
        duration_ns: None,
        event: "epoch".into(),
        value: Some("1".into()),
        ..step(18)
    };
    let marks = (0..3).map(step).chain([open]).collect();
    let (_folder, reader) = slow_sixth_second(marks, vec![sample(1), sample(2)]);
    let listed = rows(&reader, "annotations", json!({}));
    assert_eq!(
        columns(&listed, &["event", "value", "state", "duration_ns", "process"]),
        json!([
            ["epoch", "1", "open", null, "train"],
            ["step", "2", "ended", SECOND / 2, "train"],
            ["step", "1", "ended", SECOND / 2, "train"],
            ["step", "0", "ended", SECOND / 2, "train"]
        ])
    );
    assert_eq!(
        columns(&rows(&reader, "annotations", json!({"event": "step", "limit": 1})), &["value"]),
        json!([["2"]])
    );
    assert_eq!(rows(&reader, "annotations", json!({"event": "step", "value": "1", "pid": 10})).len(), 1);
    let servers = rows(&reader, "servers", json!({"limit": 1}));
    assert_eq!(columns(&servers, &["server", "ttft_count", "process"]), json!([["vllm", 10, "train"]]));
    let (_other, plain) = trace();
    assert!(refused(&plain, "annotations", json!({})).contains("--annotate"));
    assert!(refused(&plain, "servers", json!({})).contains("--servers"));
}
