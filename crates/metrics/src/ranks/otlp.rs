//! Reports as OTLP: gauges of ranks, and log records of collectives and of ranks that hang.

use super::collectives::Arrival;
use super::places::PlaceShare;
use super::stuck::{StuckRank, op_name};
use crate::otlp::attributes::{any, list, real, scope, text, whole};
use crate::otlp::{Request, Resource, request};
use gpuwhy_model::{Cause, OpId};
use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, ArrayValue, KeyValue, KeyValueList};
use opentelemetry_proto::tonic::logs::v1::{LogRecord, ResourceLogs, ScopeLogs, SeverityNumber};
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value as Number;
use opentelemetry_proto::tonic::metrics::v1::{Gauge, Metric, NumberDataPoint};
use std::collections::{BTreeMap, HashMap};

pub(super) const HEALTH: &str = "gpuwhy.rank.health";
/// Log records of a request; servers take 4 MiB of it.
const MAX_RECORDS: usize = 64;

/// A gauge of a rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Signal {
    pub(super) name: &'static str,
    unit: &'static str,
    about: &'static str,
    class: Option<Cause>,
}

const fn signal(name: &'static str, unit: &'static str, about: &'static str) -> Signal {
    Signal { name, unit, about, class: None }
}

impl Signal {
    pub(super) const HEALTH: Signal = signal(
        HEALTH,
        "1",
        "Share of a step that the rank has to spare; the rank that others wait for has none",
    );
    pub(super) const STEP: Signal =
        signal("gpuwhy.rank.step_seconds", "s", "Mean time from collective to collective");
    pub(super) const OWN: Signal = signal(
        "gpuwhy.rank.own_seconds",
        "s",
        "Of a step, what the rank spent outside collectives and waits for the GPU",
    );
    pub(super) const LAUNCH_RATE: Signal =
        signal("gpuwhy.rank.launch_rate", "1/s", "Launches of kernels and graphs");
    pub(super) const IDLE: Signal =
        signal("gpuwhy.rank.idle_ratio", "1", "Share of the time in which no stream had work, at least");
    pub(super) const CLOCK: Signal = signal("gpuwhy.rank.clock_hertz", "Hz", "Clock of the GPU's processors");
    pub(super) const ERRORS: Signal =
        signal("gpuwhy.rank.errors", "{error}", "Errors of the GPU since the last point");
    const LOST: Signal =
        signal("gpuwhy.rank.lost_records", "{record}", "Records that this host lost since the last point");

    pub(super) fn blame(cause: Cause) -> Signal {
        let about = "Share of the launching thread's time, by cause";
        Signal { class: Some(cause), ..signal("gpuwhy.rank.blame_ratio", "1", about) }
    }
}

/// Whose points these are.
#[derive(Debug, Clone)]
pub(super) struct Who {
    pub(super) pid: u32,
    pub(super) rank: Option<i32>,
    pub(super) nranks: Option<i32>,
    pub(super) job: Option<String>,
}

impl Who {
    fn attributes(&self) -> Vec<KeyValue> {
        let mut pairs = vec![whole("pid", self.pid.into())];
        pairs.extend(self.rank.map(|rank| whole("rank", rank.into())));
        pairs.extend(self.nranks.map(|nranks| whole("nranks", nranks.into())));
        pairs.extend(self.job.as_ref().map(|job| text("job_id", job)));
        pairs
    }
}

pub(super) fn points(
    who: &Who,
    signals: &[(Signal, f64)],
    lost: u64,
    now_ns: u64,
) -> Vec<(Signal, NumberDataPoint)> {
    let all = signals.iter().copied().chain([(Signal::LOST, lost as f64)]);
    all.map(|(signal, value)| {
        let mut attributes = who.attributes();
        attributes.extend(signal.class.map(|class| text("class", class.name())));
        let value = Some(Number::AsDouble(value));
        (signal, NumberDataPoint { attributes, time_unix_nano: now_ns, value, ..NumberDataPoint::default() })
    })
    .collect()
}

pub(super) fn metrics(points: Vec<(Signal, NumberDataPoint)>, resource: &Resource) -> Option<Request> {
    let mut families: BTreeMap<&'static str, (Signal, Vec<NumberDataPoint>)> = BTreeMap::new();
    for (signal, point) in points {
        families.entry(signal.name).or_insert((signal, Vec::new())).1.push(point);
    }
    let family = |(signal, data_points): (Signal, Vec<NumberDataPoint>)| Metric {
        name: signal.name.into(),
        description: signal.about.into(),
        unit: signal.unit.into(),
        data: Some(Data::Gauge(Gauge { data_points })),
        ..Metric::default()
    };
    let metrics: Vec<Metric> = families.into_values().map(family).collect();
    (!metrics.is_empty()).then(|| request(resource, metrics))
}

fn record(who: &Who, event: &str, body: Value, more: Vec<KeyValue>, now_ns: u64) -> LogRecord {
    let mut attributes = who.attributes();
    attributes.extend(more);
    LogRecord {
        time_unix_nano: now_ns,
        observed_time_unix_nano: now_ns,
        severity_number: SeverityNumber::Info as i32,
        body: Some(any(body)),
        attributes,
        event_name: event.into(),
        ..LogRecord::default()
    }
}

/// One record for all collectives of a rank.
pub(super) fn collectives(who: &Who, arrivals: &[Arrival], now_ns: u64) -> LogRecord {
    let values = arrivals.iter().map(arrival).collect();
    record(who, "gpuwhy.collectives", Value::ArrayValue(ArrayValue { values }), Vec::new(), now_ns)
}

fn arrival(arrival: &Arrival) -> AnyValue {
    let (collective, call) = (&arrival.collective, &arrival.collective.call);
    let mut values = vec![
        text("op", &collective.event),
        whole("start_ns", call.start_ns as i64),
        whole("pid", call.pid.into()),
        whole("tid", call.tid.into()),
    ];
    values.extend(collective.comm_id_hash.map(|hash| text("comm_id_hash", format!("{hash:#x}"))));
    values.extend(collective.seq.map(|seq| whole("seq", seq as i64)));
    values.extend(collective.rank.map(|rank| whole("rank", rank.into())));
    values.extend(collective.nranks.map(|nranks| whole("nranks", nranks.into())));
    values.extend(collective.count.map(|count| whole("count", count as i64)));
    values.extend(collective.datatype.as_ref().map(|datatype| text("datatype", datatype)));
    values.extend(collective.reduce_op.as_ref().map(|op| text("reduce_op", op)));
    values.extend(collective.peer.map(|peer| whole("peer", peer.into())));
    let done = arrival.done_ns.map(|done_ns| done_ns.saturating_sub(call.start_ns));
    values.extend(done.map(|ns| whole("duration_ns", ns as i64)));
    any(Value::KvlistValue(KeyValueList { values }))
}

/// One record for all lines of a rank.
pub(super) fn places(who: &Who, places: &[PlaceShare], now_ns: u64) -> LogRecord {
    let place = |place: &PlaceShare| {
        let values =
            vec![text("class", place.class.name()), text("line", &place.line), real("share", place.share)];
        any(Value::KvlistValue(KeyValueList { values }))
    };
    let values = places.iter().map(place).collect();
    record(who, "gpuwhy.places", Value::ArrayValue(ArrayValue { values }), Vec::new(), now_ns)
}

pub(super) fn stuck(who: &Who, stuck: &StuckRank, names: &HashMap<OpId, String>, now_ns: u64) -> LogRecord {
    let op = op_name(stuck, names);
    let mut more =
        vec![text("op", op), whole("since_ns", stuck.since_ns as i64), list("stack", &stuck.stack)];
    if let Some(call) = &stuck.call {
        more.extend(call.comm_id_hash.map(|hash| text("comm_id_hash", format!("{hash:#x}"))));
        more.extend(call.seq.map(|seq| whole("seq", seq as i64)));
    }
    let since_s = now_ns.saturating_sub(stuck.since_ns) as f64 / 1e9;
    let message = match &stuck.call {
        Some(_) => format!("in {op} for {since_s:.1} s"),
        None => format!("has come to no collective for {since_s:.1} s: {op}"),
    };
    record(who, "gpuwhy.hang", Value::StringValue(message), more, now_ns)
}

pub(super) fn logs(records: &[LogRecord], resource: &Resource) -> Vec<Request> {
    let request = |log_records: &[LogRecord]| {
        let scope = ScopeLogs { scope: scope(), log_records: log_records.to_vec(), ..ScopeLogs::default() };
        Request::Logs(ExportLogsServiceRequest {
            resource_logs: vec![ResourceLogs {
                resource: resource.get(),
                scope_logs: vec![scope],
                ..ResourceLogs::default()
            }],
        })
    };
    records.chunks(MAX_RECORDS).map(request).collect()
}
