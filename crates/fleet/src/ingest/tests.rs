//! Pushes decoded: every row of them, against what was put in.

#![allow(clippy::needless_pass_by_value, clippy::redundant_closure_for_method_calls)]

use super::attributes::Any;
use super::budget::Budget;
use super::decode::{AllNames, Decoding, Room};
use super::json::of_json;
use super::left_out::LeftOut;
use super::memory::{Decoded, GivenUp, Memory};
use super::otlp::{ANY, LOGS, METRICS, SPANS, Schema};
use super::wire::Message;
use crate::clock::Now;
use crate::limits::Limits;
use crate::point::{Batch, Kind};
use serde_json::{Value, json};

const NOW: i64 = 1_800_000_000_000_000_000;
const MEMORY: usize = 96 << 20;

type Take = fn(&mut Decoding<'_>, Message<'_>) -> Decoded<()>;

fn decoded_at(now: Now, message: &[u8], limits: &Limits, take: Take) -> (Decoded<(Batch, LeftOut)>, usize) {
    let (names, sender) = (AllNames::new(limits), "a".into());
    let budget = Budget::new(MEMORY, false);
    let mut taken = budget.none(&sender);
    let mut decoding = Decoding {
        limits,
        names: &names,
        sender: &sender,
        may_push: &|cluster| cluster != "theirs",
        now,
        memory: Memory::new(&mut taken, MEMORY),
        attribute_bytes: 0,
        room: Room::new(limits),
        batch: Batch::default(),
        left_out: LeftOut::default(),
    };
    let done = take(&mut decoding, Message(message));
    let Decoding { batch, left_out, .. } = decoding;
    (done.map(|()| (batch, left_out)), taken.bytes())
}

fn decoded(schema: &'static Schema, request: Value, limits: &Limits, take: Take) -> (Batch, LeftOut) {
    let message = of_json(schema, request.to_string().as_bytes(), &mut |_| Ok(())).unwrap();
    decoded_at(Now::at(NOW), &message, limits, take).0.unwrap()
}

fn metrics(request: Value, limits: &Limits) -> (Batch, LeftOut) {
    decoded(&METRICS, request, limits, |decoding, message| decoding.metrics(message))
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
    let message = left_out.sentence();
    for words in [
        "1 are of a cluster this token may not push to",
        "1 are ahead of this server's clock",
        "1 are too old",
        "2 have too many or too large attributes",
        "1 have names that are too long",
    ] {
        assert!(message.contains(words), "{message}");
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
        decoded(&LOGS, request, &Limits::default(), |decoding, message| decoding.logs(message));
    assert_eq!(left_out.sentence(), "1 are malformed");
    let [collective] = &batch.collectives[..] else { panic!("{batch:?}") };
    assert_eq!(
        (collective.seq, collective.duration_ns, collective.comm_rank),
        (Some(41), Some(5000), Some(2))
    );
    assert_eq!((&*collective.comm_id_hash, &*collective.op), ("0xab", "ALL_REDUCE"));
    let [finding, reported] = &batch.findings[..] else { panic!("{batch:?}") };
    assert_eq!((finding.class.as_deref(), finding.severity.as_deref()), (Some("io.block"), Some("high")));
    assert_eq!(
        (&*finding.title, finding.pid, finding.finding.as_deref()),
        ("t", Some(77), Some("{\"id\": 1}"))
    );
    assert_eq!((&*reported.title, reported.origin.rank), ("the disk is slow", None));
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
        decoded(&SPANS, request, &Limits::default(), |decoding, message| decoding.spans(message));
    let [span] = &batch.events[..] else { panic!("{batch:?}") };
    assert_eq!((&*span.name, span.kind, span.int, span.timestamp_ns), ("step", Kind::Span, Some(250), NOW));
    assert!(span.attrs.as_ref().unwrap().contains("0102030405060708090a0b0c0d0e0f10"));
}

/// The times of points that are taken while the clocks say that.
fn taken(now: Now, times: &[i64]) -> Vec<i64> {
    let points: Vec<Value> =
        times.iter().map(|time| json!({"timeUnixNano": time.to_string(), "asInt": "1"})).collect();
    let request = gauge("ours", points.into()).to_string();
    let message = of_json(&METRICS, request.as_bytes(), &mut |_| Ok(())).unwrap();
    let take: Take = |decoding, message| decoding.metrics(message);
    let (batch, _) = decoded_at(now, &message, &Limits::default(), take).0.unwrap();
    batch.events.iter().map(|event| event.timestamp_ns).collect()
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

/// A field of bytes, as protobuf has it.
fn field(number: u8, inside: &[u8]) -> Vec<u8> {
    let mut bytes = vec![number << 3 | 2];
    let mut length = inside.len();
    while length > 0x7f {
        bytes.push(length as u8 | 0x80);
        length >>= 7;
    }
    bytes.push(length as u8);
    bytes.extend_from_slice(inside);
    bytes
}

/// In a resource, in a scope.
fn around(entries: &[u8]) -> Vec<u8> {
    field(1, &field(2, entries))
}

#[test]
fn millions_of_empty_entries_take_no_more_memory_than_is_charged() {
    let spans = around(&[0x12, 0].repeat(2_000_000));
    let take: Take = |decoding, message| decoding.spans(message);
    let (done, charged) = decoded_at(Now::at(NOW), &spans, &Limits::default(), take);
    let (batch, left_out) = done.unwrap();
    assert_eq!((batch.rows(), left_out.sentence().as_str()), (0, "2000000 are malformed"));
    assert_eq!((batch.events.capacity(), charged), (0, 0));
    // Log records may say nothing: they are rows, and each of them is charged.
    for count in [1_000, 100_000] {
        let logs = around(&[0x12, 0].repeat(count));
        let take: Take = |decoding, message| decoding.logs(message);
        let (done, charged) = decoded_at(Now::at(NOW), &logs, &Limits::default(), take);
        let (batch, _) = done.unwrap();
        assert_eq!(batch.events.len(), count);
        let used = batch.events.capacity() * size_of::<crate::point::Event>();
        assert!(charged >= used && charged < 2 * used + (64 << 10), "{charged} {used}");
    }
    let logs = around(&[0x12, 0].repeat(4_000_000));
    let take: Take = |decoding, message| decoding.logs(message);
    let (done, charged) = decoded_at(Now::at(NOW), &logs, &Limits::default(), take);
    assert_eq!(done.err(), Some(GivenUp::TooLarge));
    assert!(charged <= MEMORY);
}

#[test]
fn what_a_resource_says_is_not_copied_for_each_of_its_scopes() {
    let pair = [field(1, b"note"), field(2, &field(1, "x".repeat(30_000).as_bytes()))].concat();
    let resource = field(1, &field(1, &pair));
    let own = field(1, &field(3, &[field(1, b"a"), field(2, &field(1, b"b"))].concat()));
    for (scope, points) in [
        (field(2, &[]), 0),
        (field(2, &own), 0),
        // A gauge of one point: all of them share what stands around them.
        (
            field(
                2,
                &field(2, &[field(1, b"m"), field(5, &field(1, &[0x31, 1, 0, 0, 0, 0, 0, 0, 0]))].concat()),
            ),
            100_000,
        ),
    ] {
        let request = field(1, &[resource.clone(), scope.repeat(100_000)].concat());
        let take: Take = |decoding, message| decoding.metrics(message);
        let (done, charged) = decoded_at(Now::at(NOW), &request, &Limits::default(), take);
        let (batch, left_out) = done.unwrap();
        assert_eq!((batch.events.len(), left_out.count()), (points, 0));
        assert!(charged < 60 << 20, "{charged}");
        let texts: std::collections::HashSet<_> =
            batch.events.iter().map(|event| event.attrs.as_ref().unwrap().as_ptr()).collect();
        assert!(texts.len() <= 1, "{}", texts.len());
    }
    // A scope that says something makes another text of it: those are bounded.
    let scope = field(2, &[own, field(2, &[field(1, b"m"), field(5, &field(1, &[]))].concat())].concat());
    let request = field(1, &[resource, scope.repeat(100_000)].concat());
    let take: Take = |decoding, message| decoding.metrics(message);
    let (done, _) = decoded_at(Now::at(NOW), &request, &Limits::default(), take);
    match done {
        Ok((batch, left_out)) => assert_eq!(batch.events.len() as u64 + left_out.count(), 100_000),
        Err(given_up) => assert_eq!(given_up, GivenUp::TooLarge),
    }
}

#[test]
fn a_value_within_values_without_end_is_refused() {
    let mut deep = Vec::new();
    for _ in 0..5_000 {
        deep = field(5, &field(1, &deep));
    }
    let value = Any::read(Message(&deep)).unwrap();
    assert!(super::object::Object::new(1 << 20).add("deep", value).is_err());
    assert!(
        of_json(&ANY, "{\"arrayValue\":{\"values\":[".repeat(5_000).as_bytes(), &mut |_| Ok(())).is_err()
    );
}
