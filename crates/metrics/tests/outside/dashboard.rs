//! The Grafana dashboard asks for nothing there is not.

use gpuwhy_metrics::{Kind, METRICS, Metric};
use serde_json::Value;
use std::collections::{BTreeSet, HashSet};

fn dashboard() -> Value {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/grafana/gpuwhy.json");
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// Every query: of panels, and of variables.
fn queries(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            for (name, field) in fields {
                match field.as_str() {
                    Some(query) if matches!(name.as_str(), "expr" | "query") => found.push(query.into()),
                    _ => queries(field, found),
                }
            }
        }
        Value::Array(fields) => fields.iter().for_each(|field| queries(field, found)),
        _ => {}
    }
}

/// What a name in a query stands for.
fn metric_of(name: &str) -> Option<&'static Metric> {
    let parts = ["_bucket", "_sum", "_count"];
    METRICS.iter().find(|metric| {
        let own = metric.prometheus_name();
        let part = || parts.iter().any(|part| name == format!("{own}{part}"));
        name == own || (metric.kind == Kind::Histogram && part())
    })
}

/// Names in the text, as PromQL has them.
fn words(text: &str) -> Vec<&str> {
    let part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    text.split(|c| !part(c)).filter(|word| word.starts_with(|c: char| c.is_ascii_alphabetic())).collect()
}

#[test]
fn every_metric_and_label_of_the_dashboard_exists() {
    let mut found = Vec::new();
    queries(&dashboard(), &mut found);
    let found: Vec<String> = found.into_iter().filter(|query| query.contains("gpuwhy_")).collect();
    assert!(found.len() > 10, "{found:?}");
    for query in &found {
        let metrics: Vec<&Metric> = words(query)
            .into_iter()
            .filter(|word| word.starts_with("gpuwhy_"))
            .map(|word| metric_of(word).unwrap_or_else(|| panic!("there is no {word}: {query}")))
            .collect();
        let mut labels: HashSet<&str> =
            metrics.iter().flat_map(|metric| metric.labels.iter().copied()).collect();
        // Prometheus's own.
        labels.extend(["le", "job", "instance"]);
        for (open, close) in [('{', '}'), ('(', ')')] {
            for (at, _) in query.match_indices(open) {
                let before = query[..at].trim_end();
                let inside = query[at + 1..].split(close).next().unwrap();
                let names: Vec<&str> = match open {
                    '{' => inside.split(',').filter_map(|pair| words(pair).first().copied()).collect(),
                    _ if before.ends_with("by") || before.ends_with("on") => words(inside),
                    _ if before.ends_with("group_left") => words(inside),
                    _ if before.ends_with("label_values") => {
                        inside.split(',').skip(1).flat_map(words).collect()
                    }
                    _ => continue,
                };
                for name in names {
                    assert!(labels.contains(name), "there is no label {name}: {query}");
                }
            }
        }
    }
}

/// A dashboard that leaves things out is made so, not by oversight.
#[test]
fn what_the_dashboard_leaves_out_is_little() {
    let mut found = Vec::new();
    queries(&dashboard(), &mut found);
    let shown: BTreeSet<&str> =
        found.iter().flat_map(|query| words(query)).filter_map(metric_of).map(|metric| metric.name).collect();
    let left_out: Vec<&str> =
        METRICS.iter().map(|metric| metric.name).filter(|name| !shown.contains(name)).collect();
    assert!(left_out.len() <= METRICS.len() / 3, "{left_out:?}");
}

#[test]
fn the_page_of_the_documentation_is_the_table() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/metrics.md");
    let page = std::fs::read_to_string(path).unwrap();
    assert!(page == gpuwhy_metrics::markdown(), "`make docs` writes it anew");
}
