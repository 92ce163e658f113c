//! Points as OTLP metrics.

use super::Request;
use super::attributes::{Resource, scope, text, whole};
use crate::distribution::{self, Distribution, SCALE};
use crate::points::{Series, Text, Value};
use crate::{Kind, Metric, State};
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::metrics::v1::exponential_histogram_data_point::Buckets;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value as Number;
use opentelemetry_proto::tonic::metrics::v1::{
    AggregationTemporality, Exemplar, ExponentialHistogram, ExponentialHistogramDataPoint, Gauge, Histogram,
    HistogramDataPoint, Metric as OtlpMetric, NumberDataPoint, ResourceMetrics, ScopeMetrics, Sum, exemplar,
};
use std::collections::BTreeMap;

/// Points in a request; servers take 4 MiB of it.
const MAX_POINTS: usize = 2000;
const CUMULATIVE: i32 = AggregationTemporality::Cumulative as i32;

/// As which kind histograms are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Histograms {
    /// With the bounds of the classic ones: understood everywhere.
    #[default]
    Explicit,
    /// Finer; Prometheus makes native ones of them.
    Exponential,
}

/// Everything the state has, in as many requests as it takes.
pub fn metrics(state: &State, resource: &Resource, histograms: Histograms) -> Vec<Request> {
    let mut requests = Vec::new();
    let (mut metrics, mut points) = (Vec::new(), 0);
    for (metric, family) in state.points.families() {
        if points + family.len() > MAX_POINTS && points > 0 {
            requests.push(request(resource, std::mem::take(&mut metrics)));
            points = 0;
        }
        points += family.len();
        metrics.push(family_of(metric, family, state, histograms));
    }
    if !metrics.is_empty() {
        requests.push(request(resource, metrics));
    }
    requests
}

pub(crate) fn request(resource: &Resource, metrics: Vec<OtlpMetric>) -> Request {
    let scope = ScopeMetrics { scope: scope(), metrics, ..ScopeMetrics::default() };
    Request::Metrics(ExportMetricsServiceRequest {
        resource_metrics: vec![ResourceMetrics {
            resource: resource.get(),
            scope_metrics: vec![scope],
            ..ResourceMetrics::default()
        }],
    })
}

fn family_of(
    metric: &Metric,
    family: &BTreeMap<Vec<Text>, Series>,
    state: &State,
    histograms: Histograms,
) -> OtlpMetric {
    let point = |(labels, series): (&Vec<Text>, &Series)| Point {
        attributes: attributes(metric, labels),
        start_ns: series.start_ns,
        now_ns: state.now_ns().max(series.start_ns),
        pushed_ns: state.pushed_ns(),
    };
    let numbers = || family.iter().map(|series| point(series).number(metric, &series.1.value)).collect();
    let distributions = || {
        family.iter().filter_map(move |series| match &series.1.value {
            Value::Distribution(distribution) => Some((point(series), distribution)),
            _ => None,
        })
    };
    let data = match (metric.kind, histograms) {
        (Kind::Counter, _) => {
            Data::Sum(Sum { data_points: numbers(), aggregation_temporality: CUMULATIVE, is_monotonic: true })
        }
        (Kind::Gauge, _) => Data::Gauge(Gauge { data_points: numbers() }),
        (Kind::Histogram, Histograms::Explicit) => Data::Histogram(Histogram {
            data_points: distributions().map(|(point, calls)| point.explicit(calls)).collect(),
            aggregation_temporality: CUMULATIVE,
        }),
        (Kind::Histogram, Histograms::Exponential) => Data::ExponentialHistogram(ExponentialHistogram {
            data_points: distributions().map(|(point, calls)| point.exponential(calls)).collect(),
            aggregation_temporality: CUMULATIVE,
        }),
    };
    OtlpMetric {
        name: metric.name.into(),
        description: metric.about.into(),
        unit: metric.unit.code().into(),
        data: Some(data),
        ..OtlpMetric::default()
    }
}

/// What all kinds of points have.
struct Point {
    attributes: Vec<KeyValue>,
    start_ns: u64,
    now_ns: u64,
    /// When the last one was pushed.
    pushed_ns: u64,
}

impl Point {
    fn number(self, metric: &Metric, value: &Value) -> NumberDataPoint {
        let scale = metric.unit.scale();
        let (start_ns, value) = match value {
            Value::Count(count) if scale == 1.0 => (self.start_ns, Number::AsInt(*count as i64)),
            Value::Count(count) => (self.start_ns, Number::AsDouble(*count as f64 / scale)),
            Value::Gauge(value) => (0, Number::AsDouble(*value)),
            // The table says which it is: there are none here.
            Value::Distribution(_) => (0, Number::AsInt(0)),
        };
        NumberDataPoint {
            attributes: self.attributes,
            start_time_unix_nano: start_ns,
            time_unix_nano: self.now_ns,
            value: Some(value),
            ..NumberDataPoint::default()
        }
    }

    fn explicit(self, calls: &Distribution) -> HistogramDataPoint {
        HistogramDataPoint {
            exemplars: self.exemplars(calls),
            attributes: self.attributes,
            start_time_unix_nano: self.start_ns,
            time_unix_nano: self.now_ns,
            count: calls.count(),
            sum: Some(calls.sum_seconds()),
            bucket_counts: calls.classic(),
            explicit_bounds: distribution::bounds().collect(),
            ..HistogramDataPoint::default()
        }
    }

    fn exponential(self, calls: &Distribution) -> ExponentialHistogramDataPoint {
        let native = calls.native();
        let first = native.keys().next().copied().unwrap_or(0);
        let last = native.keys().next_back().copied().unwrap_or(first - 1);
        let bucket_counts = (first..=last).map(|at| native.get(&at).copied().unwrap_or(0)).collect();
        ExponentialHistogramDataPoint {
            exemplars: self.exemplars(calls),
            attributes: self.attributes,
            start_time_unix_nano: self.start_ns,
            time_unix_nano: self.now_ns,
            count: calls.count(),
            sum: Some(calls.sum_seconds()),
            scale: SCALE,
            // OTLP numbers a bucket by its lower bound, Prometheus by its upper one.
            positive: Some(Buckets { offset: first - 1, bucket_counts }),
            ..ExponentialHistogramDataPoint::default()
        }
    }

    /// Those that were not pushed yet, the oldest first: a series of Prometheus takes its exemplars in the order of
    /// their milliseconds, and of their values within one, and complains of others.
    fn exemplars(&self, calls: &Distribution) -> Vec<Exemplar> {
        let mut news: Vec<&distribution::Exemplar> =
            calls.exemplars().filter(|exemplar| exemplar.end_ns() > self.pushed_ns).collect();
        news.sort_by_key(|exemplar| (exemplar.end_ns() / 1_000_000, exemplar.duration_ns));
        news.into_iter().map(exemplar_of).collect()
    }
}

fn exemplar_of(exemplar: &distribution::Exemplar) -> Exemplar {
    let mut filtered_attributes = vec![whole("timestamp_ns", exemplar.start_ns as i64)];
    filtered_attributes.extend(exemplar.stack_id.map(|stack_id| whole("stack_id", stack_id)));
    Exemplar {
        filtered_attributes,
        time_unix_nano: exemplar.end_ns(),
        span_id: exemplar.span_id.to_vec(),
        trace_id: exemplar.trace_id.to_vec(),
        value: Some(exemplar::Value::AsDouble(exemplar.seconds())),
    }
}

/// Empty ones are left out, as Prometheus leaves out empty labels.
fn attributes(metric: &Metric, labels: &[Text]) -> Vec<KeyValue> {
    let pairs = metric.labels.iter().zip(labels).filter(|(_, value)| !value.is_empty());
    pairs
        .map(|(name, value)| match value.parse() {
            Ok(rank) if *name == "rank" => whole(name, rank),
            _ => text(name, &**value),
        })
        .collect()
}

/// How many a metric has.
pub(super) fn points_in(metric: &OtlpMetric) -> usize {
    match &metric.data {
        Some(Data::Gauge(gauge)) => gauge.data_points.len(),
        Some(Data::Sum(sum)) => sum.data_points.len(),
        Some(Data::Histogram(histogram)) => histogram.data_points.len(),
        Some(Data::ExponentialHistogram(histogram)) => histogram.data_points.len(),
        Some(Data::Summary(summary)) => summary.data_points.len(),
        None => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::Id;

    const MS: u64 = 1_000_000;

    /// Three calls, the shortest of which ended last.
    fn state() -> State {
        let mut state = State::new("h", 0, &[], false);
        for (end_ns, duration_ns) in [(90 * MS, 3 * MS), (50 * MS, 9 * MS), (50 * MS + 1, 40 * MS)] {
            see(&mut state, end_ns, duration_ns);
        }
        state
    }

    fn see(state: &mut State, end_ns: u64, duration_ns: u64) {
        let labels = Id::CallDuration.metric().labels.iter().map(|_| "x".into()).collect();
        let calls = state.points.distribution(Id::CallDuration, labels).unwrap();
        calls.record(duration_ns);
        let (trace_id, span_id, start_ns) = ([1; 16], [2; 8], end_ns - duration_ns);
        calls.show(distribution::Exemplar { trace_id, span_id, start_ns, duration_ns, stack_id: None });
        state.points.set_now(end_ns);
    }

    /// When the exemplars' calls ended.
    fn ends(state: &State, histograms: Histograms) -> Vec<u64> {
        let requests = metrics(state, &Resource::new("h", &[]), histograms);
        let Request::Metrics(request) = &requests[0] else { panic!("{requests:?}") };
        let metrics = &request.resource_metrics[0].scope_metrics[0].metrics;
        let exemplars = metrics.iter().filter_map(|metric| match metric.data.as_ref()? {
            Data::Histogram(histogram) => Some(&histogram.data_points[0].exemplars),
            Data::ExponentialHistogram(histogram) => Some(&histogram.data_points[0].exemplars),
            _ => None,
        });
        exemplars.flatten().map(|exemplar| exemplar.time_unix_nano).collect()
    }

    #[test]
    fn exemplars_are_told_once_and_in_order() {
        for histograms in [Histograms::Explicit, Histograms::Exponential] {
            let mut state = state();
            assert_eq!(ends(&state, histograms), [50 * MS, 50 * MS + 1, 90 * MS], "{histograms:?}");
            state.pushed();
            assert_eq!(ends(&state, histograms), [0; 0], "{histograms:?}");
            see(&mut state, 95 * MS, 9 * MS);
            assert_eq!(ends(&state, histograms), [95 * MS], "{histograms:?}");
        }
    }
}
