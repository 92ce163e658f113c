//! Metrics as rows, one a data point.

use super::attributes::Object;
use super::decode::{Around, Decoding, event};
use crate::point::{Event, Kind};
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value;
use opentelemetry_proto::tonic::metrics::v1::{
    ExponentialHistogramDataPoint, HistogramDataPoint, Metric, NumberDataPoint, SummaryDataPoint,
};
use serde_json::json;
use std::sync::Arc;

impl Decoding<'_> {
    pub(super) fn metrics(&mut self, request: &ExportMetricsServiceRequest) {
        for resource in &request.resource_metrics {
            let (outer, about) = self.resource(resource.resource.as_ref());
            let first = self.so_far();
            for scope in &resource.scope_metrics {
                let mut around = self.scope(&outer, scope.scope.as_ref());
                for metric in &scope.metrics {
                    self.metric(&mut around, metric);
                }
            }
            self.note_nodes(first, &about);
        }
    }

    fn metric(&mut self, around: &mut Around, metric: &Metric) {
        let Some(data) = &metric.data else { return };
        let points = points_in(data);
        let Some(name) = self.name(&metric.name, points) else { return };
        self.batch.events.reserve(points);
        match data {
            Data::Gauge(gauge) => self.numbers(around, &name, Kind::Gauge, &gauge.data_points),
            Data::Sum(sum) => self.numbers(around, &name, Kind::Sum, &sum.data_points),
            Data::Histogram(histogram) => {
                for point in &histogram.data_points {
                    self.histogram(around, &name, point);
                }
            }
            Data::ExponentialHistogram(histogram) => {
                for point in &histogram.data_points {
                    self.exponential(around, &name, point);
                }
            }
            Data::Summary(summary) => {
                for point in &summary.data_points {
                    self.summary(around, &name, point);
                }
            }
        }
    }

    fn numbers(&mut self, around: &mut Around, name: &Arc<str>, kind: Kind, points: &[NumberDataPoint]) {
        for point in points {
            let made = self.point(around, name, kind, (point.time_unix_nano, &point.attributes), |_| {});
            let Some(mut event) = made else { continue };
            match point.value {
                Some(Value::AsDouble(value)) => event.double = Some(value),
                Some(Value::AsInt(value)) => event.int = Some(value),
                None => {}
            }
            self.push(event);
        }
    }

    /// The sum is its real value, the count its whole one.
    fn histogram(&mut self, around: &mut Around, name: &Arc<str>, point: &HistogramDataPoint) {
        let add = |attrs: &mut Object| {
            attrs.add_json("bounds", &json!(point.explicit_bounds));
            attrs.add_json("counts", &json!(point.bucket_counts));
            extremes(attrs, point.min, point.max);
        };
        let made = self.point(around, name, Kind::Histogram, (point.time_unix_nano, &point.attributes), add);
        let Some(mut event) = made else { return };
        event.double = point.sum;
        event.int = i64::try_from(point.count).ok();
        self.push(event);
    }

    fn exponential(&mut self, around: &mut Around, name: &Arc<str>, point: &ExponentialHistogramDataPoint) {
        let add = |attrs: &mut Object| {
            attrs.add_json("scale", &json!(point.scale));
            attrs.add_json("zero_count", &json!(point.zero_count));
            for (name, buckets) in [("positive", &point.positive), ("negative", &point.negative)] {
                if let Some(buckets) = buckets {
                    let buckets = json!({"offset": buckets.offset, "counts": buckets.bucket_counts});
                    attrs.add_json(name, &buckets);
                }
            }
            extremes(attrs, point.min, point.max);
        };
        let made = self.point(around, name, Kind::Histogram, (point.time_unix_nano, &point.attributes), add);
        let Some(mut event) = made else { return };
        event.double = point.sum;
        event.int = i64::try_from(point.count).ok();
        self.push(event);
    }

    fn summary(&mut self, around: &mut Around, name: &Arc<str>, point: &SummaryDataPoint) {
        let add = |attrs: &mut Object| {
            let quantiles = point.quantile_values.iter().map(|at| json!([at.quantile, at.value]));
            attrs.add_json("quantiles", &quantiles.collect());
        };
        let made = self.point(around, name, Kind::Summary, (point.time_unix_nano, &point.attributes), add);
        let Some(mut event) = made else { return };
        event.double = Some(point.sum);
        event.int = i64::try_from(point.count).ok();
        self.push(event);
    }

    fn point(
        &mut self,
        around: &mut Around,
        name: &Arc<str>,
        kind: Kind,
        (time_ns, pairs): (u64, &[KeyValue]),
        add: impl FnOnce(&mut Object),
    ) -> Option<Event> {
        let time = self.time(time_ns)?;
        let inner = self.inner(around, pairs, add)?;
        Some(event(time, name, kind, inner))
    }
}

fn extremes(attrs: &mut Object, min: Option<f64>, max: Option<f64>) {
    if let (Some(min), Some(max)) = (min, max) {
        attrs.add_json("min", &json!(min));
        attrs.add_json("max", &json!(max));
    }
}

fn points_in(data: &Data) -> usize {
    match data {
        Data::Gauge(gauge) => gauge.data_points.len(),
        Data::Sum(sum) => sum.data_points.len(),
        Data::Histogram(histogram) => histogram.data_points.len(),
        Data::ExponentialHistogram(histogram) => histogram.data_points.len(),
        Data::Summary(summary) => summary.data_points.len(),
    }
}
