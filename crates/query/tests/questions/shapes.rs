//! Answers that are drawn: the timeline, the tree of stacks, numbers over time.

use crate::made::{SECOND, START, ask, call, refused, trace, trace_of, window};
use gpuwhy_model::{Batch, Blame, Call, Facts, Frame, FrameKind, Stack};
use serde_json::{Value, json};

fn tracks<'a>(timeline: &'a Value, kind: &str) -> Vec<&'a Value> {
    timeline["tracks"].as_array().unwrap().iter().filter(|track| track["kind"] == kind).collect()
}

#[test]
fn a_timeline_has_every_kept_call_in_its_track_and_exact_sums_beside_it() {
    let (_folder, reader) = trace();
    let timeline = ask(&reader, "timeline", json!({"slices": 1000})).unwrap();
    assert_eq!((timeline["start_ns"].as_u64(), timeline["sampled"].as_bool()), (Some(START), Some(false)));
    let threads = tracks(&timeline, "thread");
    assert_eq!(threads.len(), 2);
    let launching = threads.iter().find(|track| track["pid"] == 10).unwrap();
    let slices = launching["slices"].as_array().unwrap();
    assert_eq!(slices.len(), 100, "a call each second");
    assert_eq!(slices[3]["start_ns"], START + 3 * SECOND);
    assert_eq!((&slices[3]["name"], &slices[3]["longest_ns"]), (&json!("cuLaunchKernel"), &json!(1000)));
    assert_eq!(slices[3]["blame"], json!([{"class": "cpu.self", "ns": 1000}]));
    // Ten calls a window, of which one was kept.
    let processes = tracks(&timeline, "process");
    let sums: u64 = processes
        .iter()
        .flat_map(|track| track["slices"].as_array().unwrap())
        .map(|slice| slice["count"].as_u64().unwrap())
        .sum();
    assert_eq!(sums, 1100);
}

#[test]
fn a_part_of_the_time_shows_that_part_only() {
    let (_folder, reader) = trace();
    let request =
        json!({"from_ns": START + 20 * SECOND, "to_ns": START + 29 * SECOND, "pid": 10, "slices": 5});
    let timeline = ask(&reader, "timeline", request).unwrap();
    let threads = tracks(&timeline, "thread");
    assert_eq!(threads.len(), 1);
    let slices = threads[0]["slices"].as_array().unwrap();
    assert!(slices.len() <= 6, "{slices:?}");
    assert_eq!(slices.iter().map(|slice| slice["count"].as_u64().unwrap()).sum::<u64>(), 10);
    let wrong = ask(&reader, "timeline", json!({"from_ns": 2, "to_ns": 1})).unwrap_err();
    assert_eq!(wrong.exit_status(), 2);
    refused(&reader, "timeline", json!({"pid": 4711}));
}

#[test]
fn tracks_beyond_the_limit_are_those_with_least_time() {
    let (_folder, reader) = trace();
    let timeline = ask(&reader, "timeline", json!({"tracks": 1})).unwrap();
    assert_eq!(timeline["truncated"], true);
    assert_eq!(timeline["tracks"].as_array().unwrap().len(), 1);
}

/// Two lines of Python that launch, one of them three times as long.
fn with_stacks(calls: u64) -> (tempfile::TempDir, gpuwhy_store::Reader) {
    let python = |function: &str, line| Frame {
        kind: FrameKind::Python,
        function: Some(function.into()),
        file: Some("train.py".into()),
        line: Some(line),
        ..Frame::default()
    };
    let native = |function: &str| Frame { function: Some(function.into()), ..Frame::default() };
    let stack = |stack_id, inner: Frame| Stack {
        stack_id,
        pid: 10,
        frames: vec![native("cudaLaunchKernel"), inner, python("main", 7), native("_start")],
        ..Stack::default()
    };
    let mut batch = Batch {
        stacks: vec![stack(1, python("forward", 142)), stack(2, python("backward", 150))],
        windows: vec![window(0, 1, 10, 1000)],
        ..Batch::default()
    };
    for number in 0..calls {
        let (stack_id, duration_ns) = if number % 2 == 0 { (1, 3_000) } else { (2, 1_000) };
        batch.calls.push(Call {
            start_ns: START + number * 100 * SECOND / calls,
            duration_ns,
            stack_id: Some(stack_id),
            blame: Blame { oncpu_ns: duration_ns - 500, runq_ns: 500, ..Blame::default() },
            ..call(0, 1, 10)
        });
    }
    trace_of(&batch, &Facts::default())
}

/// Function, value and whose child it is.
fn reported(stacks: &Value) -> Vec<(String, u64, Option<u64>)> {
    let frames = stacks["frames"].as_array().unwrap();
    let emit = |frame: &Value| {
        (
            frame["function"].as_str().unwrap().to_string(),
            frame["value"].as_u64().unwrap(),
            frame["parent"].as_u64(),
        )
    };
    frames.iter().map(emit).collect()
}

#[test]
fn stacks_are_one_tree_whose_values_add_up() {
    let (_folder, reader) = with_stacks(100);
    let stacks = ask(&reader, "stacks", Value::Null).unwrap();
    assert_eq!(
        (&stacks["unit"], &stacks["value"], &stacks["count"]),
        (&json!("ns"), &json!(200_000), &json!(100))
    );
    assert_eq!(
        reported(&stacks),
        [
            ("main".into(), 200_000, None),
            ("forward".into(), 150_000, Some(0)),
            ("cuLaunchKernel".into(), 150_000, Some(1)),
            ("backward".into(), 50_000, Some(0)),
            ("cuLaunchKernel".into(), 50_000, Some(3)),
        ]
    );
    let all = ask(&reader, "stacks", json!({"frames": "all"})).unwrap();
    assert_eq!(reported(&all)[0], ("_start".into(), 200_000, None));
    // Half a microsecond of each call was taken by others.
    let taken = ask(&reader, "stacks", json!({"cause": "cpu.preempted"})).unwrap();
    assert_eq!(reported(&taken)[0], ("main".into(), 50_000, None));
    refused(&reader, "stacks", json!({"op": "cudaMalloc"}));
}

/// More calls than are read at once: the answer comes from a part of them, says so, and is about right.
#[test]
fn of_very_many_calls_a_sample_tells_the_same() {
    let (_folder, reader) = with_stacks(130_000);
    let stacks = ask(&reader, "stacks", Value::Null).unwrap();
    assert_eq!(stacks["sampled"], true);
    let value = stacks["value"].as_f64().unwrap();
    assert!((value / 260e6 - 1.0).abs() < 0.05, "{value}");
    let frames = reported(&stacks);
    assert_eq!((frames[0].0.as_str(), frames[1].0.as_str()), ("main", "forward"));
    assert!((frames[1].1 as f64 / value - 0.75).abs() < 0.05, "{frames:?}");
    let timeline = ask(&reader, "timeline", Value::Null).unwrap();
    assert_eq!(timeline["sampled"], true);
    assert!(!tracks(&timeline, "thread").is_empty());
}

#[test]
fn numbers_over_time_add_up_to_what_was_counted() {
    let (_folder, reader) = trace();
    let series = ask(&reader, "series", json!({"of": "calls", "points": 10})).unwrap();
    let step = series["step_ns"].as_f64().unwrap() / 1e9;
    let curves = series["series"].as_array().unwrap();
    assert_eq!(curves.len(), 2);
    let calls: f64 = curves
        .iter()
        .flat_map(|curve| curve["points"].as_array().unwrap())
        .map(|point| point[1].as_f64().unwrap() * step)
        .sum();
    assert!((calls - 1100.0).abs() < 1e-6, "{calls}");
    let blame = ask(&reader, "series", json!({"of": "blame"})).unwrap();
    let names: Vec<&str> =
        blame["series"].as_array().unwrap().iter().map(|curve| curve["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["cpu.preempted", "cpu.self", "gpu.alloc"]);
    let wrong = ask(&reader, "series", json!({"metrics": ["colour"]})).unwrap_err();
    assert_eq!(wrong.exit_status(), 2);
    refused(&reader, "series", Value::Null);
}
