//! The page as text: Prometheus's own format, and OpenMetrics.

use crate::distribution::{self, Distribution};
use crate::points::{Text, Value};
use crate::{Metric, State};
use std::fmt::Write;

pub(super) fn page(state: &State, openmetrics: bool) -> String {
    let mut out = String::with_capacity(64 << 10);
    for (metric, family) in state.points.families() {
        header(&mut out, metric, openmetrics);
        let name = metric.prometheus_name();
        for (labels, series) in family {
            let labels = labels_text(metric, labels);
            match &series.value {
                Value::Count(count) => sample(&mut out, &name, &labels, &scaled(metric, *count)),
                Value::Gauge(value) => sample(&mut out, &name, &labels, &number(*value)),
                Value::Distribution(calls) => histogram(&mut out, &name, &labels, calls, openmetrics),
            }
        }
    }
    if openmetrics {
        out += "# EOF\n";
    }
    out
}

fn header(out: &mut String, metric: &Metric, openmetrics: bool) {
    // OpenMetrics names the family, the older format its samples.
    let name = if openmetrics { metric.family() } else { metric.prometheus_name() };
    // Writing to a String cannot fail, here and below.
    let _ = writeln!(out, "# HELP {name} {}.", metric.about);
    let _ = writeln!(out, "# TYPE {name} {}", metric.kind.name());
    if openmetrics && !metric.unit.suffix().is_empty() {
        let _ = writeln!(out, "# UNIT {name} {}", metric.unit.suffix());
    }
}

fn sample(out: &mut String, name: &str, labels: &str, value: &str) {
    let (open, close) = if labels.is_empty() { ("", "") } else { ("{", "}") };
    let _ = writeln!(out, "{name}{open}{labels}{close} {value}");
}

fn histogram(out: &mut String, name: &str, labels: &str, calls: &Distribution, openmetrics: bool) {
    let comma = if labels.is_empty() { "" } else { "," };
    let mut below = 0;
    let bounds = distribution::bounds().map(number).chain(["+Inf".to_string()]);
    for (at, (bound, n)) in bounds.zip(calls.classic()).enumerate() {
        below += n;
        let _ = write!(out, "{name}_bucket{{{labels}{comma}le=\"{bound}\"}} {below}");
        let exemplar = calls.exemplar(at).filter(|_| openmetrics && n > 0);
        if let Some(exemplar) = exemplar {
            let pairs: Vec<String> =
                exemplar.labels().iter().map(|(name, value)| format!("{name}=\"{value}\"")).collect();
            let (value, time) = (number(exemplar.seconds()), exemplar.end_ns() as f64 / 1e9);
            let _ = write!(out, " # {{{}}} {value} {time:.3}", pairs.join(","));
        }
        out.push('\n');
    }
    sample(out, &format!("{name}_sum"), labels, &number(calls.sum_seconds()));
    sample(out, &format!("{name}_count"), labels, &calls.count().to_string());
}

fn scaled(metric: &Metric, count: u64) -> String {
    match metric.unit.scale() {
        1.0 => count.to_string(),
        scale => number(count as f64 / scale),
    }
}

/// As Prometheus writes numbers, so that a bound is the same label in every format.
fn number(value: f64) -> String {
    if value == 0.0 || !(1e-4..1e21).contains(&value.abs()) {
        let text = format!("{value:e}");
        return match text.split_once("e-") {
            Some((digits, exponent)) => format!("{digits}e-{exponent:0>2}"),
            None => value.to_string(),
        };
    }
    value.to_string()
}

/// Without the braces; empty ones are left out, as they mean the same.
fn labels_text(metric: &Metric, labels: &[Text]) -> String {
    let pairs = metric.labels.iter().zip(labels).filter(|(_, value)| !value.is_empty());
    let mut out = String::new();
    for (name, value) in pairs {
        let comma = if out.is_empty() { "" } else { "," };
        let _ = write!(out, "{comma}{name}=\"{}\"", escaped(value));
    }
    out
}

fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Id;

    #[test]
    fn numbers_are_written_as_prometheus_does() {
        for (value, text) in
            [(0.0, "0"), (1.0, "1"), (0.5, "0.5"), (1.023e-6, "1.023e-06"), (0.001048575, "0.001048575")]
        {
            assert_eq!(number(value), text);
        }
    }

    #[test]
    fn a_hostile_name_stays_within_its_label() {
        let labels = ["a\"} 1\nevil 2\\".into(), "".into(), "".into()];
        let text = labels_text(Id::WatchCost.metric(), &labels);
        assert_eq!(text, r#"process="a\"} 1\nevil 2\\""#);
    }
}
