//! A trace file as OTLP, read by OpenTelemetry's own classes.

use crate::readers::{done, reader};
use crate::sample;
use gpuwhy_metrics::otlp_of;
use gpuwhy_store::{Filter, Options, Reader, SessionInfo, Span, Writer};
use serde_json::Value;
use std::path::Path;
use std::process::Command;

/// Reads a file and says what is in it; the last point of a series counts.
const SCRIPT: &str = r#"
import base64, json, re, sys
from google.protobuf import json_format
from opentelemetry.proto.logs.v1.logs_pb2 import LogsData
from opentelemetry.proto.metrics.v1.metrics_pb2 import MetricsData
from opentelemetry.proto.trace.v1.trace_pb2 import TracesData

NAMES = {"resourceMetrics": MetricsData, "resourceLogs": LogsData, "resourceSpans": TracesData}

def read(text):
    # OTLP's JSON has ids in hex where protobuf's has base64: the one way in which they differ.
    ids = lambda m: '"%s": "%s"' % (m[1], base64.b64encode(bytes.fromhex(m[2])).decode())
    for line in text.splitlines():
        line = re.sub(r'"(traceId|spanId|parentSpanId)":\s*"([0-9a-f]*)"', ids, line)
        kind = NAMES[next(iter(json.loads(line)))]
        yield json_format.Parse(line, kind())

messages = list(read(open(sys.argv[1]).read()))
last, spans, logs, times = {}, [], [], set()
for message in messages:
    if isinstance(message, TracesData):
        spans += [s for r in message.resource_spans for x in r.scope_spans for s in x.spans]
    elif isinstance(message, LogsData):
        logs += [s for r in message.resource_logs for x in r.scope_logs for s in x.log_records]
    else:
        for m in [m for r in message.resource_metrics for x in r.scope_metrics for m in x.metrics]:
            points = m.sum.data_points or m.histogram.data_points or m.gauge.data_points
            for p in points:
                key = (m.name, str(p.attributes))
                assert key not in last or last[key].time_unix_nano < p.time_unix_nano
                last[key] = p; times.add(p.time_unix_nano)
of = lambda name: [p for (n, _), p in last.items() if n == name]
print(json.dumps({
    "calls": sum(p.as_int for p in of("gpuwhy.calls")),
    "count": sum(p.count for p in of("gpuwhy.call.duration")),
    "sum": sum(p.sum for p in of("gpuwhy.call.duration")),
    "blame": sum(p.as_double for p in of("gpuwhy.blame")),
    "copied": sum(p.as_int for p in of("gpuwhy.copied")),
    "lost": sum(p.as_int for p in of("gpuwhy.records.lost")),
    "power": [p.as_double for p in of("gpuwhy.gpu.power")],
    "spans": len({bytes(s.span_id) for s in spans}), "logs": len(logs), "times": len(times),
    "stacks": sum(any(a.key == "code.stacktrace" for a in s.attributes) for s in spans),
}))
"#;

fn recorded(file: &Path, seconds: u64) -> sample::Truth {
    let (batches, truth) = sample::batches(seconds);
    let session = SessionInfo { start_ns: sample::START_NS, host: "node7".into(), ..SessionInfo::default() };
    let mut writer = Writer::create_or_append(file, &session, &sample::ops(), &Options::default()).unwrap();
    for (batch, facts) in &batches {
        writer.write(batch, facts).unwrap();
    }
    writer.finish(sample::START_NS + seconds * 1_000_000_000).unwrap();
    truth
}

fn exported(reader: &Reader, span: Option<Span>, python: &Path, file: &Path) -> Value {
    let mut out = Vec::new();
    let items = otlp_of(reader, span, &mut out, &|_| true).unwrap();
    assert!(items > 0);
    std::fs::write(file, out).unwrap();
    let output = Command::new(python).args(["-c", SCRIPT]).arg(file).output().unwrap();
    serde_json::from_str(&done(output)).unwrap()
}

#[test]
fn a_file_has_the_sums_of_its_tables() {
    let Some(python) = reader("python", "a_file_has_the_sums_of_its_tables") else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("trace.db");
    // More than two steps.
    let truth = recorded(&trace, 25);
    let reader = Reader::open(&trace).unwrap();
    let stats = reader.call_stats(&Filter::default()).unwrap();
    assert_eq!(stats.iter().map(|stats| stats.count).sum::<u64>(), truth.calls);
    let read = exported(&reader, None, &python, &folder.path().join("out.jsonl"));
    let sum_ns: u64 = stats.iter().map(|stats| stats.sum_ns).sum();
    let blame_ns: u64 = reader.blame(&Filter::default()).unwrap().iter().map(|row| row.ns).sum();
    assert_eq!((&read["calls"], &read["count"]), (&truth.calls.into(), &truth.calls.into()));
    assert!((read["sum"].as_f64().unwrap() - sum_ns as f64 / 1e9).abs() < 1e-6);
    assert!((read["blame"].as_f64().unwrap() - blame_ns as f64 / 1e9).abs() < 1e-6);
    assert_eq!(read["copied"], 25 * 2 * (4 << 20));
    assert_eq!(read["lost"], 50);
    assert_eq!(read["power"], serde_json::json!([512.0]));
    assert_eq!((&read["spans"], &read["stacks"]), (&truth.slow.into(), &truth.slow.into()));
    assert_eq!(read["times"], 3, "a point every ten seconds");
}

#[test]
fn a_stretch_of_a_file_has_what_is_in_it() {
    let Some(python) = reader("python", "a_stretch_of_a_file_has_what_is_in_it") else { return };
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("trace.db");
    let truth = recorded(&trace, 20);
    let reader = Reader::open(&trace).unwrap();
    let start_ns = sample::START_NS + 5_000_000_000;
    let span = Span { start_ns, end_ns: start_ns + 5_000_000_000 - 1 };
    let read = exported(&reader, Some(span), &python, &folder.path().join("out.jsonl"));
    assert_eq!(read["calls"], truth.calls / 4);
}
