//! The page as protobuf, the only format with native histograms. The messages are those of `io.prometheus.client`.

use crate::distribution::{self, Distribution, SCALE};
use crate::points::{Series, Text, Value};
use crate::{Kind, Metric, State};
use prost::Message;

/// Durations below it would be zeros: Prometheus's own choice, and what makes it see that the histogram is a native one.
const ZERO_THRESHOLD: f64 = 2.938735877055719e-39;
/// An empty stretch as long as this begins another span.
const MAX_GAP: i32 = 2;

pub(super) fn page(state: &State) -> Vec<u8> {
    let mut out = Vec::with_capacity(64 << 10);
    for (metric, series) in state.points.families() {
        let family = Family {
            name: metric.prometheus_name(),
            help: format!("{}.", metric.about),
            kind: match metric.kind {
                Kind::Counter => MetricType::Counter,
                Kind::Gauge => MetricType::Gauge,
                Kind::Histogram => MetricType::Histogram,
            } as i32,
            metric: series.iter().map(|(labels, series)| sample(metric, labels, series)).collect(),
            unit: metric.unit.suffix().into(),
        };
        out.extend(family.encode_length_delimited_to_vec());
    }
    out
}

fn sample(metric: &Metric, labels: &[Text], series: &Series) -> Sample {
    let pairs = metric.labels.iter().zip(labels).filter(|(_, value)| !value.is_empty());
    let mut sample =
        Sample { label: pairs.map(|(name, value)| pair(name, value)).collect(), ..Sample::default() };
    match &series.value {
        Value::Count(count) => {
            let value = *count as f64 / metric.unit.scale();
            sample.counter = Some(Counter { value, created: Some(timestamp(series.start_ns)) });
        }
        Value::Gauge(value) => sample.gauge = Some(Gauge { value: *value }),
        Value::Distribution(calls) => sample.histogram = Some(histogram(calls, series.start_ns)),
    }
    sample
}

fn histogram(calls: &Distribution, start_ns: u64) -> Histogram {
    let mut below = 0;
    let bounds = distribution::bounds().chain([f64::INFINITY]);
    let buckets = bounds.zip(calls.classic()).enumerate().map(|(at, (upper_bound, n))| {
        below += n;
        let exemplar = calls.exemplar(at).filter(|_| n > 0).map(exemplar);
        Bucket { cumulative_count: below, upper_bound, exemplar }
    });
    let (positive_span, positive_delta) = spans(calls);
    Histogram {
        sample_count: calls.count(),
        sample_sum: calls.sum_seconds(),
        bucket: buckets.collect(),
        schema: SCALE,
        zero_threshold: ZERO_THRESHOLD,
        zero_count: 0,
        positive_span,
        positive_delta,
        created: Some(timestamp(start_ns)),
        exemplars: calls.exemplars().map(exemplar).collect(),
    }
}

/// Stretches of buckets, and how each bucket's count differs from the one before.
fn spans(calls: &Distribution) -> (Vec<Span>, Vec<i64>) {
    let (mut spans, mut deltas): (Vec<Span>, Vec<i64>) = (Vec::new(), Vec::new());
    let (mut next, mut last) = (0, 0);
    for (bucket, count) in calls.native() {
        let gap = bucket - next;
        match spans.last_mut() {
            Some(span) if gap <= MAX_GAP => {
                for _ in 0..gap {
                    deltas.push(-last);
                    last = 0;
                }
                span.length += gap as u32 + 1;
            }
            _ => spans.push(Span { offset: gap, length: 1 }),
        }
        deltas.push(count as i64 - last);
        (next, last) = (bucket + 1, count as i64);
    }
    (spans, deltas)
}

fn exemplar(exemplar: &distribution::Exemplar) -> Exemplar {
    Exemplar {
        label: exemplar.labels().iter().map(|(name, value)| pair(name, value)).collect(),
        value: exemplar.seconds(),
        timestamp: Some(timestamp(exemplar.end_ns())),
    }
}

fn pair(name: &str, value: &str) -> LabelPair {
    LabelPair { name: name.into(), value: value.into() }
}

fn timestamp(ns: u64) -> Timestamp {
    Timestamp { seconds: (ns / 1_000_000_000) as i64, nanos: (ns % 1_000_000_000) as i32 }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
enum MetricType {
    Counter = 0,
    Gauge = 1,
    Histogram = 4,
}

#[derive(Clone, PartialEq, Message)]
struct Family {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "2")]
    help: String,
    #[prost(enumeration = "MetricType", tag = "3")]
    kind: i32,
    #[prost(message, repeated, tag = "4")]
    metric: Vec<Sample>,
    #[prost(string, tag = "5")]
    unit: String,
}

#[derive(Clone, PartialEq, Message)]
struct Sample {
    #[prost(message, repeated, tag = "1")]
    label: Vec<LabelPair>,
    #[prost(message, optional, tag = "2")]
    gauge: Option<Gauge>,
    #[prost(message, optional, tag = "3")]
    counter: Option<Counter>,
    #[prost(message, optional, tag = "7")]
    histogram: Option<Histogram>,
}

#[derive(Clone, PartialEq, Message)]
struct LabelPair {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "2")]
    value: String,
}

#[derive(Clone, Copy, PartialEq, Message)]
struct Gauge {
    #[prost(double, tag = "1")]
    value: f64,
}

#[derive(Clone, Copy, PartialEq, Message)]
struct Counter {
    #[prost(double, tag = "1")]
    value: f64,
    #[prost(message, optional, tag = "3")]
    created: Option<Timestamp>,
}

#[derive(Clone, PartialEq, Message)]
struct Histogram {
    #[prost(uint64, tag = "1")]
    sample_count: u64,
    #[prost(double, tag = "2")]
    sample_sum: f64,
    #[prost(message, repeated, tag = "3")]
    bucket: Vec<Bucket>,
    #[prost(sint32, tag = "5")]
    schema: i32,
    #[prost(double, tag = "6")]
    zero_threshold: f64,
    #[prost(uint64, tag = "7")]
    zero_count: u64,
    #[prost(message, repeated, tag = "12")]
    positive_span: Vec<Span>,
    #[prost(sint64, repeated, tag = "13")]
    positive_delta: Vec<i64>,
    #[prost(message, optional, tag = "15")]
    created: Option<Timestamp>,
    #[prost(message, repeated, tag = "16")]
    exemplars: Vec<Exemplar>,
}

#[derive(Clone, PartialEq, Message)]
struct Bucket {
    #[prost(uint64, tag = "1")]
    cumulative_count: u64,
    #[prost(double, tag = "2")]
    upper_bound: f64,
    #[prost(message, optional, tag = "3")]
    exemplar: Option<Exemplar>,
}

#[derive(Clone, Copy, PartialEq, Message)]
struct Span {
    #[prost(sint32, tag = "1")]
    offset: i32,
    #[prost(uint32, tag = "2")]
    length: u32,
}

#[derive(Clone, PartialEq, Message)]
struct Exemplar {
    #[prost(message, repeated, tag = "1")]
    label: Vec<LabelPair>,
    #[prost(double, tag = "2")]
    value: f64,
    #[prost(message, optional, tag = "3")]
    timestamp: Option<Timestamp>,
}

#[derive(Clone, Copy, PartialEq, Message)]
struct Timestamp {
    #[prost(int64, tag = "1")]
    seconds: i64,
    #[prost(int32, tag = "2")]
    nanos: i32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_and_differences_give_the_buckets_back() {
        let mut calls = Distribution::default();
        for ns in [70, 900, 1000, 1000, 48_300, 50_000, 3_000_000_000] {
            calls.record(ns);
        }
        let (spans, deltas) = spans(&calls);
        let (mut bucket, mut count, mut deltas) = (0, 0, deltas.into_iter());
        let mut read = std::collections::BTreeMap::new();
        for span in &spans {
            bucket += span.offset;
            for _ in 0..span.length {
                count += deltas.next().unwrap();
                if count > 0 {
                    read.insert(bucket, count as u64);
                }
                bucket += 1;
            }
        }
        assert_eq!(deltas.next(), None);
        assert_eq!(read, calls.native());
    }
}
