//! What programs and servers say of themselves.

use crate::made::{START, lines, session, trace, writer};
use gpuwhy_model::{Annotation, Batch, Bucket, Facts, Latency, MarkClock, MarkState, ServerSample, Signal};
use gpuwhy_store::Reader;
use std::collections::BTreeMap;

fn mark(state: MarkState, value: &str, time: u64, duration_ns: Option<u64>) -> Annotation {
    Annotation {
        time_ns: START + time,
        duration_ns,
        state,
        event: "step".into(),
        value: Some(value.into()),
        labels: BTreeMap::from([("step".into(), value.into()), ("epoch".into(), "3".into())]),
        pid: Some(10),
        uid: 1000,
        clock: MarkClock::Annotator,
    }
}

#[test]
fn a_span_is_one_row_that_ends_later() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace.db");
    let mut writer = writer(&path);
    let write = |writer: &mut gpuwhy_store::Writer, marks: Vec<Annotation>| {
        writer.write(&Batch { annotations: marks, ..Batch::default() }, &Facts::default()).unwrap();
        writer.commit().unwrap();
    };
    let other =
        Annotation { pid: None, uid: 0, clock: MarkClock::Received, ..mark(MarkState::Open, "1", 5, None) };
    write(&mut writer, vec![mark(MarkState::Open, "1", 5, None), other, mark(MarkState::At, "m", 6, None)]);
    let rows = "SELECT timestamp_ns, duration_ns, event, value, state, clock, pid, uid FROM annotations ORDER BY 1, pid, 4";
    let before = [
        "+5|-|step|1|open|received|-|0",
        "+5|-|step|1|open|annotator|10|1000",
        "+6|-|step|m|at|annotator|10|1000",
    ];
    assert_eq!(lines(&Reader::open(&path).unwrap(), rows), before);
    // One that began before the trace, or whose row is gone, is written when it ends.
    write(
        &mut writer,
        vec![mark(MarkState::Ended, "1", 5, Some(20)), mark(MarkState::Ended, "0", 1, Some(4))],
    );
    writer.finish(START + 100).unwrap();
    let reader = Reader::open(&path).unwrap();
    let after = [
        "+1|4|step|0|ended|annotator|10|1000",
        "+5|-|step|1|open|received|-|0",
        "+5|20|step|1|ended|annotator|10|1000",
        "+6|-|step|m|at|annotator|10|1000",
    ];
    assert_eq!(lines(&reader, rows), after);
    assert_eq!(
        lines(&reader, "SELECT DISTINCT labels FROM annotations WHERE value = '1'"),
        [r#"{"epoch":"3","step":"1"}"#]
    );
    assert_eq!(
        lines(&reader, "SELECT layer, op, node FROM events WHERE duration_ns = 20"),
        [format!("annotation|step|{}", session().host)]
    );
}

#[test]
fn a_servers_sample_comes_back_as_it_was() {
    let bucket = |lower_us, upper_us, count| Bucket { lower_us, upper_us, count };
    let ttft =
        Latency { count: 4, sum_us: 100.0, buckets: vec![bucket(0.0, Some(10.0), 3), bucket(40.0, None, 1)] };
    let full = ServerSample {
        time_ns: START + 5,
        window_ns: 1_000_000_000,
        server: "vllm".into(),
        url: "http://127.0.0.1:8000/metrics".into(),
        pid: Some(7),
        model: "m".into(),
        running: Some(1.5),
        waiting: Some(0.0),
        kv_cache_pct: Some(50.0),
        preemptions: Some(2),
        requests: Some(4),
        prompt_tokens_per_s: Some(10.0),
        generation_tokens_per_s: Some(20.0),
        spec_accept_pct: Some(75.0),
        latencies: BTreeMap::from([
            (Signal::Ttft, ttft),
            (Signal::E2e, Latency { count: 2, sum_us: 50.0, buckets: Vec::new() }),
            (Signal::Queue, Latency::default()),
        ]),
    };
    let bare =
        ServerSample { time_ns: START + 6, server: "tgi".into(), url: "u".into(), ..ServerSample::default() };
    let samples = vec![full.clone(), bare.clone()];
    let batch = Batch { server_samples: samples.clone(), ..Batch::default() };
    let (_folder, reader) = trace(&batch, &Facts::default());
    assert_eq!(reader.server_samples(START, START + 10).unwrap(), samples);
    assert_eq!(reader.server_samples(START + 6, START + 7).unwrap(), [bare]);
    assert_eq!(
        lines(
            &reader,
            "SELECT ttft_count, ttft_mean_us, ttft_p50_us, ttft_p99_us, ttft_buckets, itl_count, e2e_mean_us, e2e_p99_us, \
                        queue_count, queue_mean_us FROM server_samples WHERE server = 'vllm'"
        ),
        ["4|25|6.666666666666666|40|[[0.0,10.0,3],[40.0,null,1]]|-|25|-|0|-"]
    );
}
