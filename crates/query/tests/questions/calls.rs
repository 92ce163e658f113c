//! Questions about calls, their time and the file.

use crate::made::{SECOND, START, ask, trace, trace_of, window};
use gpuwhy_model::{Batch, CallClass, CallWindow, Container, Facts, Process, Slice, Span};
use serde_json::{Value, json};

#[test]
fn sql_answers_with_coverage() {
    let (_folder, reader) = trace();
    let answer =
        ask(&reader, "sql", json!({"statement": "SELECT op, count(*) AS n FROM cuda_events GROUP BY op"}))
            .unwrap();
    assert_eq!(
        answer,
        json!({
            "rows": [{"op": "cuLaunchKernel", "n": 100}, {"op": "cudaMalloc", "n": 10}],
            "truncated": false,
            "coverage": {"lost": 7, "lost_by": [{"probe": "cuda", "reason": "ring", "count": 7}], "sampled": 990, "degraded": [], "unattached": []},
        })
    );
    let answer = ask(&reader, "sql", json!({"statement": "SELECT * FROM events", "limit": 3})).unwrap();
    assert_eq!((answer["rows"].as_array().unwrap().len(), &answer["truncated"]), (3, &json!(true)));
    let refused = ask(&reader, "sql", json!({"statement": "DELETE FROM calls"})).unwrap_err();
    assert_eq!(refused.to_string(), "that SQL would change the trace; only SELECT is allowed");
    assert_eq!(refused.exit_status(), 1);
}

#[test]
fn events_are_filtered_and_the_newest_are_kept() {
    let (_folder, reader) = trace();
    let all = ask(&reader, "events", json!({})).unwrap();
    assert_eq!(all["rows"].as_array().unwrap().len(), 110);
    assert_eq!(all["rows"][0]["timestamp_ns"], START);
    assert_eq!(all["rows"][0]["node"], "node-7");
    let mallocs = ask(&reader, "events", json!({"op": "cudaMalloc", "pid": 20})).unwrap();
    assert_eq!(mallocs["rows"].as_array().unwrap().len(), 10);
    let newest = ask(&reader, "events", json!({"op": "cuLaunchKernel", "limit": 2})).unwrap();
    let times: Vec<_> =
        newest["rows"].as_array().unwrap().iter().map(|row| row["timestamp_ns"].as_u64().unwrap()).collect();
    assert_eq!((times, &newest["truncated"]), (vec![START + 98 * SECOND, START + 99 * SECOND], &json!(true)));
    // Back from the newest event, which is long ago.
    let late = ask(&reader, "events", json!({"since": "5s"})).unwrap();
    assert_eq!(late["rows"].as_array().unwrap().len(), 6);
    assert_eq!(late["coverage"]["lost"], 0);
    let none = ask(&reader, "events", json!({"op": "cudaFree"})).unwrap_err();
    assert_eq!(none.exit_status(), 3);
    assert_eq!(
        none.to_string(),
        "the trace has no events of operation cudaFree; it has calls of cuLaunchKernel, cudaMalloc"
    );
    assert_eq!(ask(&reader, "events", json!({"since": "soon"})).unwrap_err().exit_status(), 2);
}

#[test]
fn operations_agree_with_the_view_and_follow_filters() {
    let (_folder, reader) = trace();
    let typed = ask(&reader, "operations", json!({})).unwrap();
    let view = ask(&reader, "sql", json!({"statement": "SELECT * FROM op_summary"})).unwrap();
    assert_eq!(typed["rows"], view["rows"]);
    assert_eq!(typed["rows"][0]["op"], "cudaMalloc");
    let late = ask(&reader, "operations", json!({"op": "cuLaunchKernel", "since": "9s"})).unwrap();
    assert_eq!(late["rows"][0]["count"], 100);
    let p50 = late["rows"][0]["p50_us"].as_f64().unwrap();
    assert!((3.5..=4.0).contains(&p50), "{p50}");
    assert_eq!(late["rows"][0]["runq_pct"], 60.0);
    let of_process = ask(&reader, "operations", json!({"pid": 20})).unwrap();
    assert_eq!(of_process["rows"].as_array().unwrap().len(), 1);
    assert_eq!(ask(&reader, "operations", json!({"pid": 77})).unwrap_err().exit_status(), 3);
}

#[test]
fn blame_is_summed_as_asked() {
    let (_folder, reader) = trace();
    let answer = ask(&reader, "blame", json!({})).unwrap();
    assert_eq!(
        answer["rows"][0],
        json!({"op": "cuLaunchKernel", "cause": "cpu.preempted", "by_pid": 99, "by_comm": "stress", "ms": 6.0, "pct": 60.0, "count": 4})
    );
    let by_cause = ask(&reader, "blame", json!({"by": ["cause"], "op": "cuLaunchKernel"})).unwrap();
    assert_eq!(by_cause["rows"][1], json!({"cause": "cpu.self", "ms": 2.0, "pct": 25.0, "count": 2}));
    let culprits = ask(&reader, "blame", json!({"by": ["by"], "cause": "cpu.preempted"})).unwrap();
    assert_eq!(
        culprits["rows"],
        json!([{"by_pid": 99, "by_comm": "stress", "ms": 6.0, "pct": 100.0, "count": 4}])
    );
    assert_eq!(ask(&reader, "blame", json!({"cause": "net.tcp"})).unwrap_err().exit_status(), 3);
}

#[test]
fn the_file_and_its_processes_are_described() {
    let (_folder, reader) = trace();
    let trace = ask(&reader, "trace", Value::Null).unwrap();
    assert_eq!(trace["events"], 110);
    assert_eq!(
        (trace["start_ns"].as_u64(), trace["end_ns"].as_u64()),
        (Some(START), Some(START + 100 * SECOND))
    );
    assert_eq!(trace["nodes"], json!(["node-7"]));
    assert_eq!(trace["sessions"][0]["host"], "node-7");
    assert!(trace["file"].as_str().unwrap().ends_with("trace.db"));
    let processes = ask(&reader, "processes", json!({"pid": 10})).unwrap();
    assert_eq!((&processes["rows"][0]["comm"], &processes["rows"][0]["rank"]), (&json!("python"), &json!(1)));
    assert_eq!(ask(&reader, "coverage", json!({"since": "9s"})).unwrap()["coverage"]["sampled"], 99);
}

#[test]
fn processes_come_with_their_containers_and_by_tenant() {
    let of = |pid, tenant: &str, name: &str| Process {
        pid,
        start_ns: START,
        tenant: tenant.into(),
        container_id: Some(name.into()),
        container: Some(Container {
            container_id: name.into(),
            name: Some(name.into()),
            image: Some("img:1".into()),
            ..Container::default()
        }),
        ..Process::default()
    };
    let processes = vec![of(10, "ml/train-0", "worker"), of(20, "web", "server")];
    let (_folder, reader) = trace_of(&Batch { processes, ..Batch::default() }, &Facts::default());
    let both = ask(&reader, "processes", json!({})).unwrap();
    assert_eq!(
        (&both["rows"][1]["container"], &both["rows"][1]["image"]),
        (&json!("server"), &json!("img:1"))
    );
    let one = ask(&reader, "processes", json!({"tenant": "ml/train-0"})).unwrap();
    assert_eq!((one["rows"].as_array().unwrap().len(), &one["rows"][0]["pid"]), (1, &json!(10)));
    let none = ask(&reader, "processes", json!({"pid": 10, "tenant": "web"})).unwrap_err().to_string();
    assert!(none.contains("no process 10 of web"), "{none}");
}

/// Windows of sums begin on the half second, before the trace did; what the process did then is no part of it.
#[test]
fn calls_watched_in_slices_are_scaled_to_the_time_that_was_traced() {
    const TENTH: u64 = SECOND / 10;
    let slices: Vec<Slice> = (0..10)
        .map(|second| {
            let start_ns = START + second * SECOND;
            let span = Span { start_ns, end_ns: start_ns + TENTH };
            Slice { class: CallClass::Synchronisations, span, pid: None, slowed_ns: 0 }
        })
        .collect();
    let syncs = |slice: &Slice| CallWindow {
        window_start_ns: slice.span.start_ns,
        window_ns: TENTH,
        slice: 1,
        ..window(0, 6, 10, 1000)
    };
    let before = CallWindow { window_start_ns: START - 4 * TENTH, ..window(0, 1, 10, 1000) };
    let process = Process {
        pid: 10,
        start_ns: START - 60 * SECOND,
        end_ns: Some(START + 10 * SECOND),
        ..Process::default()
    };
    let batch = Batch {
        windows: slices.iter().map(syncs).chain([before]).collect(),
        processes: vec![process],
        slices,
        ..Batch::default()
    };
    let (_folder, reader) = trace_of(&batch, &Facts::default());
    let answer = ask(&reader, "operations", json!({})).unwrap();
    let of = |op: &str| {
        answer["rows"].as_array().unwrap().iter().find(|row| row["op"] == op).unwrap()["count"].clone()
    };
    assert_eq!(of("cudaStreamSynchronize"), 1000, "ten in each tenth of ten seconds: {answer}");
    assert_eq!(of("cuLaunchKernel"), 10, "always watched");
}
