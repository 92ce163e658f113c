//! OTLP's messages as JSON names their fields: what `json.rs` needs to write them as protobuf. Fields that nobody here reads
//! are left out, and so passed over.

/// How a value is written.
#[derive(Debug, Clone, Copy)]
pub(super) enum Kind {
    Text,
    /// Ids, which OTLP writes in hex where protobuf's JSON would have base64.
    Hex,
    Base64,
    Bool,
    /// Numbers of up to 64 bits: as a number, or as a string where JSON's own are too short.
    Varint,
    /// A `sint32`.
    Zigzag,
    Fixed64,
    Double,
    One(&'static Schema),
    Many(&'static Schema),
    /// Packed.
    Fixed64s,
    Doubles,
    Varints,
}

#[derive(Debug)]
pub(super) struct Schema(pub(super) &'static [(&'static str, u32, Kind)]);

pub(super) static METRICS: Schema = Schema(&[("resourceMetrics", 1, Kind::Many(&RESOURCE_METRICS))]);
pub(super) static LOGS: Schema = Schema(&[("resourceLogs", 1, Kind::Many(&RESOURCE_LOGS))]);
pub(super) static SPANS: Schema = Schema(&[("resourceSpans", 1, Kind::Many(&RESOURCE_SPANS))]);

static RESOURCE: Schema = Schema(&[("attributes", 1, Kind::Many(&PAIR))]);
static SCOPE: Schema = Schema(&[("attributes", 3, Kind::Many(&PAIR))]);
static PAIR: Schema = Schema(&[("key", 1, Kind::Text), ("value", 2, Kind::One(&ANY))]);
pub(super) static ANY: Schema = Schema(&[
    ("stringValue", 1, Kind::Text),
    ("boolValue", 2, Kind::Bool),
    ("intValue", 3, Kind::Varint),
    ("doubleValue", 4, Kind::Double),
    ("arrayValue", 5, Kind::One(&LIST)),
    ("kvlistValue", 6, Kind::One(&MAP)),
    ("bytesValue", 7, Kind::Base64),
]);
static LIST: Schema = Schema(&[("values", 1, Kind::Many(&ANY))]);
static MAP: Schema = Schema(&[("values", 1, Kind::Many(&PAIR))]);

static RESOURCE_METRICS: Schema =
    Schema(&[("resource", 1, Kind::One(&RESOURCE)), ("scopeMetrics", 2, Kind::Many(&SCOPE_METRICS))]);
static SCOPE_METRICS: Schema =
    Schema(&[("scope", 1, Kind::One(&SCOPE)), ("metrics", 2, Kind::Many(&METRIC))]);
static METRIC: Schema = Schema(&[
    ("name", 1, Kind::Text),
    ("gauge", 5, Kind::One(&NUMBERS)),
    ("sum", 7, Kind::One(&NUMBERS)),
    ("histogram", 9, Kind::One(&HISTOGRAMS)),
    ("exponentialHistogram", 10, Kind::One(&EXPONENTIALS)),
    ("summary", 11, Kind::One(&SUMMARIES)),
]);
static NUMBERS: Schema = Schema(&[("dataPoints", 1, Kind::Many(&NUMBER))]);
static NUMBER: Schema = Schema(&[
    ("timeUnixNano", 3, Kind::Fixed64),
    ("asDouble", 4, Kind::Double),
    ("asInt", 6, Kind::Fixed64),
    ("attributes", 7, Kind::Many(&PAIR)),
]);
static HISTOGRAMS: Schema = Schema(&[("dataPoints", 1, Kind::Many(&HISTOGRAM))]);
static HISTOGRAM: Schema = Schema(&[
    ("timeUnixNano", 3, Kind::Fixed64),
    ("count", 4, Kind::Fixed64),
    ("sum", 5, Kind::Double),
    ("bucketCounts", 6, Kind::Fixed64s),
    ("explicitBounds", 7, Kind::Doubles),
    ("attributes", 9, Kind::Many(&PAIR)),
    ("min", 11, Kind::Double),
    ("max", 12, Kind::Double),
]);
static EXPONENTIALS: Schema = Schema(&[("dataPoints", 1, Kind::Many(&EXPONENTIAL))]);
static EXPONENTIAL: Schema = Schema(&[
    ("attributes", 1, Kind::Many(&PAIR)),
    ("timeUnixNano", 3, Kind::Fixed64),
    ("count", 4, Kind::Fixed64),
    ("sum", 5, Kind::Double),
    ("scale", 6, Kind::Zigzag),
    ("zeroCount", 7, Kind::Fixed64),
    ("positive", 8, Kind::One(&BUCKETS)),
    ("negative", 9, Kind::One(&BUCKETS)),
    ("min", 12, Kind::Double),
    ("max", 13, Kind::Double),
]);
static BUCKETS: Schema = Schema(&[("offset", 1, Kind::Zigzag), ("bucketCounts", 2, Kind::Varints)]);
static SUMMARIES: Schema = Schema(&[("dataPoints", 1, Kind::Many(&SUMMARY))]);
static SUMMARY: Schema = Schema(&[
    ("timeUnixNano", 3, Kind::Fixed64),
    ("count", 4, Kind::Fixed64),
    ("sum", 5, Kind::Double),
    ("quantileValues", 6, Kind::Many(&QUANTILE)),
    ("attributes", 7, Kind::Many(&PAIR)),
]);
static QUANTILE: Schema = Schema(&[("quantile", 1, Kind::Double), ("value", 2, Kind::Double)]);

static RESOURCE_LOGS: Schema =
    Schema(&[("resource", 1, Kind::One(&RESOURCE)), ("scopeLogs", 2, Kind::Many(&SCOPE_LOGS))]);
static SCOPE_LOGS: Schema = Schema(&[("scope", 1, Kind::One(&SCOPE)), ("logRecords", 2, Kind::Many(&LOG))]);
static LOG: Schema = Schema(&[
    ("timeUnixNano", 1, Kind::Fixed64),
    ("severityText", 3, Kind::Text),
    ("body", 5, Kind::One(&ANY)),
    ("attributes", 6, Kind::Many(&PAIR)),
    ("observedTimeUnixNano", 11, Kind::Fixed64),
    ("eventName", 12, Kind::Text),
]);

static RESOURCE_SPANS: Schema =
    Schema(&[("resource", 1, Kind::One(&RESOURCE)), ("scopeSpans", 2, Kind::Many(&SCOPE_SPANS))]);
static SCOPE_SPANS: Schema = Schema(&[("scope", 1, Kind::One(&SCOPE)), ("spans", 2, Kind::Many(&SPAN))]);
static SPAN: Schema = Schema(&[
    ("traceId", 1, Kind::Hex),
    ("spanId", 2, Kind::Hex),
    ("parentSpanId", 4, Kind::Hex),
    ("name", 5, Kind::Text),
    ("startTimeUnixNano", 7, Kind::Fixed64),
    ("endTimeUnixNano", 8, Kind::Fixed64),
    ("attributes", 9, Kind::Many(&PAIR)),
    ("events", 11, Kind::Many(&SPAN_EVENT)),
    ("status", 15, Kind::One(&STATUS)),
]);
static SPAN_EVENT: Schema = Schema(&[("timeUnixNano", 1, Kind::Fixed64), ("name", 2, Kind::Text)]);
static STATUS: Schema = Schema(&[("message", 2, Kind::Text), ("code", 3, Kind::Varint)]);
