//! Pushes as agents and other clients make them.

use gpuwhy_fleet_core::ingest::{Format, Signal};
use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use prost::Message;
use serde::de::DeserializeOwned;

const RESOURCE: &str = r#""resource":{"attributes":[{"key":"cluster_id","value":{"stringValue":"training"}},
    {"key":"node_id","value":{"stringValue":"node-7"}},{"key":"job_id","value":{"intValue":"12"}},
    {"key":"service.name","value":{"stringValue":"gpuwhy"}},{"key":"rank","value":{"intValue":"3"}},
    {"key":"nranks","value":{"stringValue":"8"}}]}"#;

const METRICS: &str = r#"{"resourceMetrics":[{RESOURCE,"scopeMetrics":[{"scope":{"name":"gpuwhy","attributes":[]},"metrics":[
    {"name":"gpuwhy.rank.own_seconds","unit":"s","gauge":{"dataPoints":[{"timeUnixNano":"0","asDouble":1.5,
        "attributes":[{"key":"rank","value":{"intValue":"4"}},{"key":"class","value":{"stringValue":"cpu.preempted"}}]}]}},
    {"name":"calls","sum":{"aggregationTemporality":2,"isMonotonic":true,"dataPoints":[{"timeUnixNano":"0","asInt":"7"}]}},
    {"name":"latency","histogram":{"aggregationTemporality":1,"dataPoints":[{"timeUnixNano":"0","count":"3","sum":6.5,
        "bucketCounts":["1","1","1"],"explicitBounds":[1.0,2.0],"min":0.5,"max":4.0}]}},
    {"name":"wide","exponentialHistogram":{"aggregationTemporality":1,"dataPoints":[{"timeUnixNano":"0","count":"2","sum":3.0,
        "scale":3,"zeroCount":"0","positive":{"offset":1,"bucketCounts":["1","1"]},"negative":{"offset":0,"bucketCounts":[]}}]}},
    {"name":"old","summary":{"dataPoints":[{"timeUnixNano":"0","count":"2","sum":3.0,
        "quantileValues":[{"quantile":0.5,"value":1.0},{"quantile":0.99,"value":2.0}]}]}}]}]}]}"#;

const LOGS: &str = r#"{"resourceLogs":[{RESOURCE,"scopeLogs":[{"logRecords":[
    {"eventName":"gpuwhy.collectives","attributes":[],"body":{"arrayValue":{"values":[{"kvlistValue":{"values":[
        {"key":"comm_id_hash","value":{"stringValue":"0xab"}},{"key":"op","value":{"stringValue":"ncclAllReduce"}},
        {"key":"start_ns","value":{"intValue":"0"}},{"key":"duration_ns","value":{"intValue":"900"}},
        {"key":"seq","value":{"intValue":"41"}},{"key":"rank","value":{"intValue":"2"}},
        {"key":"nranks","value":{"intValue":"8"}},{"key":"count","value":{"intValue":"1024"}},
        {"key":"datatype","value":{"stringValue":"bfloat16"}}]}}]}}},
    {"timeUnixNano":"0","eventName":"gpuwhy.finding","severityText":"WARN","body":{"stringValue":"{\"title\":\"late\"}"},
        "attributes":[{"key":"class","value":{"stringValue":"io.block"}},{"key":"pid","value":{"intValue":"77"}}]},
    {"timeUnixNano":"0","severityText":"INFO","body":{"kvlistValue":{"values":[{"key":"a","value":{"boolValue":true}},
        {"key":"b","value":{"bytesValue":"AAEC"}},{"key":"c","value":{"doubleValue":0.5}}]}},"attributes":[]}]}]}]}"#;

const TRACES: &str = r#"{"resourceSpans":[{RESOURCE,"scopeSpans":[{"spans":[
    {"traceId":"5b8efff798038103d269b633813fc60c","spanId":"eee19b7ec3c1b174","parentSpanId":"eee19b7ec3c1b173","name":"step",
        "kind":1,"startTimeUnixNano":"0","endTimeUnixNano":"5","status":{"code":2,"message":"failed"},
        "attributes":[{"key":"step","value":{"intValue":"140"}}],
        "events":[{"timeUnixNano":"3","name":"sync","attributes":[]}],"links":[]}]}]}]}"#;

/// As JSON and as protobuf.
pub(super) fn messages(signal: Signal) -> Vec<(Format, Vec<u8>)> {
    match signal {
        Signal::Metrics => both::<ExportMetricsServiceRequest>(METRICS),
        Signal::Logs => both::<ExportLogsServiceRequest>(LOGS),
        Signal::Traces => both::<ExportTraceServiceRequest>(TRACES),
    }
}

fn both<M: Message + DeserializeOwned>(text: &str) -> Vec<(Format, Vec<u8>)> {
    let words: Vec<&str> = text.split('\n').map(str::trim_start).collect();
    let resource: Vec<&str> = RESOURCE.split('\n').map(str::trim_start).collect();
    let text = words.concat().replace("RESOURCE", &resource.concat());
    let message: M = serde_json::from_str(&text).expect("the seed is OTLP");
    vec![(Format::Json, text.into_bytes()), (Format::Protobuf, message.encode_to_vec())]
}
