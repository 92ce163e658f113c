//! What a simulated agent sends, as OTLP.

use gpuwhy_cohort::Signal;
use gpuwhy_cohort::simulation::{Call, Push};
use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, ArrayValue, KeyValue, KeyValueList};
use opentelemetry_proto::tonic::logs::v1::{LogRecord, ResourceLogs, ScopeLogs};
use opentelemetry_proto::tonic::metrics::v1::{
    Gauge, Metric, NumberDataPoint, ResourceMetrics, ScopeMetrics, metric, number_data_point,
};
use opentelemetry_proto::tonic::resource::v1::Resource;

/// Of which cluster and job the push is.
pub(crate) struct Of<'a> {
    pub cluster: &'a str,
    pub job: &'a str,
    pub nranks: usize,
    /// By the node's clock.
    pub now_ns: u64,
}

fn any(value: Value) -> Option<AnyValue> {
    Some(AnyValue { value: Some(value) })
}

fn pair(key: &str, value: Value) -> KeyValue {
    KeyValue { key: key.into(), value: any(value), ..KeyValue::default() }
}

fn text(key: &str, value: &str) -> KeyValue {
    pair(key, Value::StringValue(value.into()))
}

fn number(key: &str, value: u64) -> KeyValue {
    pair(key, Value::IntValue(value as i64))
}

fn resource(push: &Push, of: &Of<'_>) -> Option<Resource> {
    let attributes = vec![
        text("service.name", "gpuwhy"),
        text("service.version", env!("CARGO_PKG_VERSION")),
        text("host.name", &push.node),
        text("node_id", &push.node),
        text("cluster_id", of.cluster),
        text("job_id", of.job),
    ];
    Some(Resource { attributes, ..Resource::default() })
}

fn about(push: &Push, of: &Of<'_>) -> Vec<KeyValue> {
    vec![number("rank", u64::from(push.rank)), number("nranks", of.nranks as u64)]
}

/// A gauge for each signal.
pub(crate) fn metrics(push: &Push, of: &Of<'_>) -> ExportMetricsServiceRequest {
    let metrics = push.samples.iter().map(|(signal, value)| {
        let mut attributes = about(push, of);
        if let Signal::Blame(cause) = signal {
            attributes.push(text("class", cause.name()));
        }
        let point = NumberDataPoint {
            attributes,
            time_unix_nano: of.now_ns,
            value: Some(number_data_point::Value::AsDouble(*value)),
            ..NumberDataPoint::default()
        };
        Metric {
            name: signal.metric().into(),
            unit: signal.unit().into(),
            data: Some(metric::Data::Gauge(Gauge { data_points: vec![point] })),
            ..Metric::default()
        }
    });
    let scope = ScopeMetrics { metrics: metrics.collect(), ..ScopeMetrics::default() };
    let all = ResourceMetrics {
        resource: resource(push, of),
        scope_metrics: vec![scope],
        ..ResourceMetrics::default()
    };
    ExportMetricsServiceRequest { resource_metrics: vec![all] }
}

/// The collectives, and a stack where the rank is stuck; nothing where there is nothing to tell.
pub(crate) fn logs(push: &Push, of: &Of<'_>) -> Option<ExportLogsServiceRequest> {
    let mut records = Vec::new();
    if !push.calls.is_empty() {
        let calls = push.calls.iter().map(|call| collective(push, call)).collect();
        let body = any(Value::ArrayValue(ArrayValue { values: calls }));
        records.push(record("gpuwhy.collectives", push, of, body));
    }
    if !push.stack.is_empty() {
        let frames =
            push.stack.iter().map(|frame| AnyValue { value: Some(Value::StringValue(frame.clone())) });
        let mut fields = vec![
            text("op", "ALL_REDUCE"),
            number("since_ns", of.now_ns),
            pair("stack", Value::ArrayValue(ArrayValue { values: frames.collect() })),
        ];
        if let Some((comm, seq)) = &push.stuck_in {
            fields.extend([text("comm_id_hash", comm), number("seq", *seq)]);
        }
        let body = any(Value::KvlistValue(KeyValueList { values: fields }));
        records.push(record("gpuwhy.hang", push, of, body));
    }
    if records.is_empty() {
        return None;
    }
    let scope = ScopeLogs { log_records: records, ..ScopeLogs::default() };
    let all =
        ResourceLogs { resource: resource(push, of), scope_logs: vec![scope], ..ResourceLogs::default() };
    Some(ExportLogsServiceRequest { resource_logs: vec![all] })
}

fn record(event: &str, push: &Push, of: &Of<'_>, body: Option<AnyValue>) -> LogRecord {
    let mut attributes = about(push, of);
    attributes.push(text("event.name", event));
    LogRecord {
        time_unix_nano: of.now_ns,
        observed_time_unix_nano: of.now_ns,
        event_name: event.into(),
        attributes,
        body,
        ..LogRecord::default()
    }
}

fn collective(push: &Push, call: &Call) -> AnyValue {
    let reported = push.record(call);
    let mut values = vec![
        text("comm_id_hash", reported.comm),
        text("op", reported.op),
        number("rank", u64::from(reported.rank)),
        number("nranks", u64::from(reported.nranks)),
        number("count", reported.count),
        text("datatype", reported.datatype),
        text("reduce_op", reported.reduce_op),
        number("start_ns", reported.start_ns),
        // Those of another load are other processes.
        number("pid", (u64::from(std::process::id()) << 16) + u64::from(push.rank)),
    ];
    values.extend(reported.seq.map(|seq| number("seq", seq)));
    values.extend(reported.peer.map(|peer| number("peer", u64::from(peer))));
    values.extend(reported.duration_ns.map(|ns| number("duration_ns", ns)));
    AnyValue { value: Some(Value::KvlistValue(KeyValueList { values })) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpuwhy_cohort::simulation::{Agents, Machine, Plan};

    #[test]
    fn a_push_has_all_signals_of_the_rank_and_all_its_calls() {
        let plan = Plan::new(1);
        let (mut machine, mut agents) = (Machine::new(&plan), Agents::new(&plan));
        machine.run_to(3.0);
        let pushes = agents.pushes_to(&mut machine, 3.0);
        let push = pushes.last().unwrap();
        let of = Of { cluster: "c", job: "j", nranks: 8, now_ns: push.seen_ns };
        let sent = metrics(push, &of);
        let names: Vec<&str> = sent.resource_metrics[0].scope_metrics[0]
            .metrics
            .iter()
            .map(|metric| metric.name.as_str())
            .collect();
        assert_eq!(names.len(), push.samples.len());
        assert!(names.contains(&"gpuwhy.rank.own_seconds") && names.contains(&"gpuwhy.rank.blame_ratio"));
        let sent = logs(push, &of).unwrap();
        let Some(Value::ArrayValue(calls)) =
            sent.resource_logs[0].scope_logs[0].log_records[0].body.as_ref().unwrap().value.clone()
        else {
            panic!("the body is a list")
        };
        assert_eq!(calls.values.len(), push.calls.len());
    }
}
