//! Pushes decoded: every row of them, against what was put in.

#![allow(clippy::needless_pass_by_value)]

use super::decode::{AllNames, Decoding, LeftOut, Room};
use crate::clock::Now;
use crate::limits::Limits;
use crate::point::{Batch, Kind};
use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

const NOW: i64 = 1_800_000_000_000_000_000;

fn decoded<M: DeserializeOwned>(
    request: Value,
    limits: &Limits,
    take: impl FnOnce(&mut Decoding<'_>, &M),
) -> (Batch, LeftOut) {
    let names = AllNames::new(limits);
    let mut decoding = Decoding {
        limits,
        names: &names,
        may_push: &|cluster| cluster != "theirs",
        now: Now::at(NOW),
        attribute_bytes: 0,
        room: Room::default(),
        batch: Batch::default(),
        left_out: LeftOut::default(),
    };
    let request: M = serde_json::from_value(request).unwrap();
    take(&mut decoding, &request);
    (decoding.batch, decoding.left_out)
}

fn metrics(request: Value, limits: &Limits) -> (Batch, LeftOut) {
    decoded::<ExportMetricsServiceRequest>(request, limits, |decoding, request| {
        decoding.metrics(request);
    })
}

fn attribute(key: &str, value: Value) -> Value {
    json!({"key": key, "value": value})
}

fn gauge(cluster: &str, points: Value) -> Value {
    json!({"resourceMetrics": [{
        "resource": {"attributes": [
            attribute("cluster_id", json!({"stringValue": cluster})),
            attribute("host.name", json!({"stringValue": "node1"})),
            attribute("service.name", json!({"stringValue": "gpuwhy"})),
            attribute("pod", json!({"stringValue": "p"})),
            attribute("rank", json!({"intValue": "9"})),
        ]},
        "scopeMetrics": [{
            "scope": {"name": "s", "attributes": [attribute("job_id", json!({"stringValue": "outer"}))]},
            "metrics": [{"name": "gpuwhy.rank.health", "gauge": {"dataPoints": points}}],
        }],
    }]})
}

#[test]
fn a_gauge_is_a_row_a_point_and_the_innermost_attribute_wins() {
    let points = json!([
        {"timeUnixNano": NOW.to_string(), "asDouble": 0.5, "attributes": [
            attribute("rank", json!({"intValue": "3"})),
            attribute("nranks", json!({"intValue": "8"})),
            attribute("job_id", json!({"stringValue": "inner"})),
            attribute("class", json!({"stringValue": "io.block"})),
        ]},
        {"timeUnixNano": (NOW - 5).to_string(), "asInt": "7"},
        {"asInt": "8"},
    ]);
    let (batch, left_out) = metrics(gauge("ours", points), &Limits::default());
    assert_eq!(left_out.count(), 0);
    let [first, second, third] = &batch.events[..] else { panic!("{batch:?}") };
    assert_eq!((&*first.name, first.kind, first.timestamp_ns), ("gpuwhy.rank.health", Kind::Gauge, NOW));
    assert_eq!((first.double, first.int), (Some(0.5), None));
    assert_eq!((&*first.origin.cluster, &*first.origin.node), ("ours", "node1"));
    assert_eq!((first.origin.rank, first.origin.nranks), (Some(3), Some(8)));
    assert_eq!(first.origin.job.as_deref(), Some("inner"));
    assert_eq!(
        first.attrs.as_deref(),
        Some(r#"{"pod":"p","class":"io.block"}"#),
        "the sender's are the node's"
    );
    assert_eq!((second.double, second.int, second.origin.rank), (None, Some(7), Some(9)));
    assert_eq!(
        (second.origin.job.as_deref(), second.attrs.as_deref()),
        (Some("outer"), Some(r#"{"pod":"p"}"#))
    );
    assert_eq!(third.timestamp_ns, NOW, "a point without a time is of now");
    let [node] = &batch.nodes[..] else { panic!("{:?}", batch.nodes) };
    assert_eq!((&*node.node, node.points), ("node1", 3));
    assert!(node.resource.contains("\"service.name\":\"gpuwhy\""), "{}", node.resource);
}

#[test]
fn what_is_beyond_a_limit_is_left_out_and_counted_and_the_rest_is_taken() {
    let limits = Limits { attributes: 4, attribute_bytes: 60, name_bytes: 20, ..Limits::default() };
    let pair = |key: &str| attribute(key, json!({"intValue": "1"}));
    let points = json!([
        {"timeUnixNano": NOW.to_string(), "asInt": "1"},
        {"timeUnixNano": (NOW + 3_600_000_000_000).to_string(), "asInt": "1"},
        {"timeUnixNano": "1", "asInt": "1"},
        {"asInt": "1", "attributes": [pair("a"), pair("b"), pair("c"), pair("d"), pair("e")]},
        {"asInt": "1", "attributes": [attribute("a", json!({"stringValue": "x".repeat(100)}))]},
        {"asInt": "1", "attributes": [attribute("node_id", json!({"stringValue": "x".repeat(21)}))]},
        {"asInt": "1", "attributes": [attribute("cluster_id", json!({"stringValue": "theirs"}))]},
    ]);
    let (batch, left_out) = metrics(gauge("ours", points), &limits);
    assert_eq!(batch.events.len(), 1);
    assert_eq!(left_out.count(), 6);
    let said = left_out.sentence();
    for words in [
        "1 are of a cluster this token may not push to",
        "1 are ahead of this server's clock",
        "1 are too old",
        "2 have too many or too large attributes",
        "1 have names that are too long",
    ] {
        assert!(said.contains(words), "{said}");
    }
    let few = Limits { names: 1, ..Limits::default() };
    let points = json!([{"asInt": "1"}, {"asInt": "1", "attributes": [attribute("node_id", json!({"stringValue": "new"}))]}]);
    let (batch, left_out) = metrics(gauge("ours", points), &few);
    assert_eq!((batch.events.len(), left_out.count()), (1, 1), "{}", left_out.sentence());
}

#[test]
fn histograms_keep_sum_count_and_buckets() {
    let request = json!({"resourceMetrics": [{"scopeMetrics": [{"metrics": [
        {"name": "h", "histogram": {"dataPoints": [
            {"count": "3", "sum": 1.5, "min": 0.1, "max": 1.0, "bucketCounts": ["1", "2"], "explicitBounds": [0.5]}]}},
        {"name": "e", "exponentialHistogram": {"dataPoints": [
            {"count": "2", "sum": 4.0, "scale": 3, "zeroCount": "0", "positive": {"offset": 1, "bucketCounts": ["2"]}}]}},
        {"name": "s", "summary": {"dataPoints": [
            {"count": "4", "sum": 2.0, "quantileValues": [{"quantile": 0.5, "value": 0.25}]}]}},
    ]}]}]});
    let (batch, left_out) = metrics(request, &Limits::default());
    assert_eq!(left_out.count(), 0);
    let values: Vec<_> = batch.events.iter().map(|event| (event.kind, event.double, event.int)).collect();
    let expected = [
        (Kind::Histogram, Some(1.5), Some(3)),
        (Kind::Histogram, Some(4.0), Some(2)),
        (Kind::Summary, Some(2.0), Some(4)),
    ];
    assert_eq!(values, expected);
    let attrs: Vec<Value> = batch
        .events
        .iter()
        .map(|event| serde_json::from_str(event.attrs.as_ref().unwrap()).unwrap())
        .collect();
    assert_eq!(attrs[0], json!({"bounds": [0.5], "counts": [1, 2], "min": 0.1, "max": 1.0}));
    assert_eq!(attrs[1], json!({"scale": 3, "zero_count": 0, "positive": {"offset": 1, "counts": [2]}}));
    assert_eq!(attrs[2], json!({"quantiles": [[0.5, 0.25]]}));
    assert_eq!((&*batch.events[0].origin.cluster, &*batch.events[0].origin.node), ("default", "unknown"));
}

#[test]
fn collectives_and_findings_go_to_their_tables_and_other_logs_stay_events() {
    let map = |pairs: Vec<Value>| json!({"kvlistValue": {"values": pairs}});
    let whole = map(vec![
        attribute("comm_id_hash", json!({"stringValue": "0xab"})),
        attribute("seq", json!({"intValue": "41"})),
        attribute("op", json!({"stringValue": "ALL_REDUCE"})),
        attribute("rank", json!({"intValue": "2"})),
        attribute("nranks", json!({"intValue": "8"})),
        attribute("count", json!({"intValue": "1024"})),
        attribute("datatype", json!({"stringValue": "bfloat16"})),
        attribute("start_ns", json!({"intValue": NOW.to_string()})),
        attribute("duration_ns", json!({"intValue": "5000"})),
    ]);
    let lacking = map(vec![attribute("seq", json!({"intValue": "41"}))]);
    let request = json!({"resourceLogs": [{"scopeLogs": [{"logRecords": [
        {"timeUnixNano": NOW.to_string(), "attributes": [attribute("event.name", json!({"stringValue": "gpuwhy.collectives"}))],
         "body": {"arrayValue": {"values": [whole, lacking]}}},
        {"timeUnixNano": NOW.to_string(), "eventName": "gpuwhy.finding", "severityText": "high",
         "attributes": [attribute("class", json!({"stringValue": "io.block"})), attribute("title", json!({"stringValue": "t"})),
                        attribute("rank", json!({"intValue": "2"})), attribute("pid", json!({"intValue": "77"}))],
         "body": {"stringValue": "{\"id\": 1}"}},
        {"timeUnixNano": NOW.to_string(), "eventName": "gpuwhy.finding", "body": {"stringValue": "the disk is slow"}},
        {"observedTimeUnixNano": NOW.to_string(), "severityText": "INFO", "body": {"stringValue": "hello"}},
    ]}]}]});
    let (batch, left_out) =
        decoded::<ExportLogsServiceRequest>(request, &Limits::default(), |decoding, request| {
            decoding.logs(request);
        });
    assert_eq!(left_out.sentence(), "1 are malformed");
    let [collective] = &batch.collectives[..] else { panic!("{batch:?}") };
    assert_eq!(
        (collective.seq, collective.duration_ns, collective.comm_rank),
        (Some(41), Some(5000), Some(2))
    );
    assert_eq!((&*collective.comm_id_hash, &*collective.op), ("0xab", "ALL_REDUCE"));
    let [finding, told] = &batch.findings[..] else { panic!("{batch:?}") };
    assert_eq!((finding.class.as_deref(), finding.severity.as_deref()), (Some("io.block"), Some("high")));
    assert_eq!(
        (&*finding.title, finding.pid, finding.finding.as_deref()),
        ("t", Some(77), Some("{\"id\": 1}"))
    );
    assert_eq!((&*told.title, told.origin.rank), ("the disk is slow", None));
    let [log] = &batch.events[..] else { panic!("{batch:?}") };
    assert_eq!((&*log.name, log.kind), ("log", Kind::Log));
    assert_eq!(log.attrs.as_deref(), Some(r#"{"severity":"INFO","body":"hello"}"#));
}

#[test]
fn a_span_is_its_duration() {
    let request = json!({"resourceSpans": [{"scopeSpans": [{"spans": [{
        "traceId": "0102030405060708090a0b0c0d0e0f10", "spanId": "0102030405060708", "name": "step",
        "startTimeUnixNano": NOW.to_string(), "endTimeUnixNano": (NOW + 250).to_string(),
    }]}]}]});
    let (batch, _) =
        decoded::<ExportTraceServiceRequest>(request, &Limits::default(), |decoding, request| {
            decoding.spans(request);
        });
    let [span] = &batch.events[..] else { panic!("{batch:?}") };
    assert_eq!((&*span.name, span.kind, span.int, span.timestamp_ns), ("step", Kind::Span, Some(250), NOW));
    assert!(span.attrs.as_ref().unwrap().contains("0102030405060708090a0b0c0d0e0f10"));
}

/// The times of points that are taken while the clocks say that.
fn taken(now: Now, times: &[i64]) -> Vec<i64> {
    let limits = Limits::default();
    let names = AllNames::new(&limits);
    let mut decoding = Decoding {
        limits: &limits,
        names: &names,
        may_push: &|_| true,
        now,
        attribute_bytes: 0,
        room: Room::default(),
        batch: Batch::default(),
        left_out: LeftOut::default(),
    };
    let points: Vec<Value> =
        times.iter().map(|time| json!({"timeUnixNano": time.to_string(), "asInt": "1"})).collect();
    decoding.metrics(&serde_json::from_value(gauge("ours", points.into())).unwrap());
    decoding.batch.events.iter().map(|event| event.timestamp_ns).collect()
}

#[test]
fn a_server_whose_clock_is_set_loses_nothing() {
    const HOUR: i64 = 3_600_000_000_000;
    let times = [NOW, NOW - HOUR, NOW - 6 * 24 * HOUR];
    for by in [0, HOUR, -HOUR, 30 * 24 * HOUR, -30 * 24 * HOUR] {
        assert_eq!(taken(Now { wall_ns: NOW + by, steady_ns: NOW }, &times), times, "set by {by}");
        // It was wrong when the server began, and was put right.
        assert_eq!(taken(Now { wall_ns: NOW, steady_ns: NOW + by }, &times), times, "set by {by}");
    }
    assert_eq!(
        taken(Now::at(NOW), &[NOW + HOUR, NOW - 8 * 24 * HOUR]),
        [0; 0],
        "agents whose clocks are wrong"
    );
}

#[test]
fn what_stands_around_many_points_does_not_make_a_huge_request_of_a_small_one() {
    let limits = Limits { request_bytes: 10_000, ..Limits::default() };
    let around = attribute("note", json!({"stringValue": "x".repeat(1_000)}));
    let own = json!([attribute("a", json!({"intValue": "1"}))]);
    let points: Vec<Value> = (0..100).map(|_| json!({"asInt": "1", "attributes": own})).collect();
    let request = json!({"resourceMetrics": [{
        "resource": {"attributes": [around]},
        "scopeMetrics": [{"metrics": [{"name": "m", "gauge": {"dataPoints": points}}]}],
    }]});
    let (batch, left_out) = metrics(request, &limits);
    let bytes: usize = batch.events.iter().map(|event| event.attrs.as_ref().unwrap().len()).sum();
    assert!(bytes < 4 * 10_000 + 2_000 && left_out.count() > 50, "{bytes} {}", left_out.sentence());
    assert_eq!(batch.events.len() as u64 + left_out.count(), 100);
}
