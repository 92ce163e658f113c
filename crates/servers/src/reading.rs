//! What a page says, and what two pages say of the time between them. Pure.

use crate::kind::{Kind, Means, Metric};
use crate::page::Page;
use gpuwhy_model::{Bucket, Latency, ServerSample, Signal};
use std::collections::{BTreeMap, BTreeSet};

/// The longest list of models that is kept.
const MAX_MODELS: usize = 8;
const MAX_MODEL_BYTES: usize = 256;

/// Counts since the server began, and what is so now.
#[derive(Debug, Clone, Default)]
pub(crate) struct Reading {
    models: BTreeSet<String>,
    values: BTreeMap<Means, f64>,
    histograms: BTreeMap<Signal, Histogram>,
}

#[derive(Debug, Clone, Default)]
struct Histogram {
    /// Upper bound as bits of the number, which sort as the numbers do, and how many are at most that.
    buckets: BTreeMap<u64, f64>,
    sum_us: f64,
    count: f64,
}

impl Reading {
    pub(crate) fn of(kind: &Kind, text: &str) -> Reading {
        let page = Page::parse(text, |name| kind.metrics.iter().any(|metric| is_part_of(name, metric)));
        let mut reading = Reading::default();
        for metric in kind.metrics {
            match metric.means {
                Means::Histogram(signal) => {
                    if let Some(histogram) = histogram(&page, metric) {
                        reading.histograms.entry(signal).or_insert(histogram);
                    }
                }
                means => {
                    if let Some(value) = value(&page, metric) {
                        reading.values.entry(means).or_insert(value);
                    }
                }
            }
        }
        let models = page.all().flat_map(|sample| {
            kind.model_labels.iter().filter_map(|label| sample.label(label)).map(sanitize)
        });
        reading.models = models.filter(|model| !model.is_empty()).take(10_000).collect();
        reading
    }

    /// Since the reading before; nothing where the server has begun anew meanwhile.
    pub(crate) fn since(&self, before: &Reading, window_ns: u64) -> Option<ServerSample> {
        let fell = |means: &Means| {
            means.is_counter()
                && self.values.get(means).zip(before.values.get(means)).is_some_and(|(now, then)| now < then)
        };
        if self.values.keys().any(fell) {
            return None;
        }
        let seconds = (window_ns as f64 / 1e9).max(1e-9);
        let gauge = |means| self.values.get(&means).copied();
        let rise = |means| Some(self.values.get(&means)? - before.values.get(&means)?);
        let count = |means| rise(means).map(|rise| rise.round() as u64);
        let mut latencies = BTreeMap::new();
        for (signal, histogram) in &self.histograms {
            let before = before.histograms.get(signal).cloned().unwrap_or_default();
            latencies.insert(*signal, histogram.since(&before)?);
        }
        for signal in Signal::ALL {
            if let (Some(sum_us), Some(count)) = (rise(Means::Sum(signal)), count(Means::Requests)) {
                latencies.entry(signal).or_insert(Latency { count, sum_us, buckets: Vec::new() });
            }
        }
        let drafted = rise(Means::Drafted).filter(|drafted| *drafted > 0.0);
        let accepted = drafted.zip(rise(Means::Accepted)).map(|(drafted, taken)| 100.0 * taken / drafted);
        let generated = rise(Means::GenerationTokens).map(|tokens| tokens / seconds);
        Some(ServerSample {
            window_ns,
            model: self.models.iter().take(MAX_MODELS).cloned().collect::<Vec<_>>().join(", "),
            running: gauge(Means::Running),
            waiting: gauge(Means::Waiting),
            kv_cache_pct: gauge(Means::KvCache),
            preemptions: count(Means::Preemptions),
            requests: count(Means::Requests),
            prompt_tokens_per_s: rise(Means::PromptTokens).map(|tokens| tokens / seconds),
            generation_tokens_per_s: generated.or_else(|| gauge(Means::GenerationRate)),
            spec_accept_pct: accepted.or_else(|| gauge(Means::AcceptRate)),
            latencies,
            ..ServerSample::default()
        })
    }
}

impl Histogram {
    /// Nothing where a count fell: it is another one.
    fn since(&self, before: &Histogram) -> Option<Latency> {
        let mut latency = Latency { sum_us: (self.sum_us - before.sum_us).max(0.0), ..Latency::default() };
        let (mut lower_us, mut below) = (0.0, 0.0);
        for (bound, now) in &self.buckets {
            let rise = now - before.buckets.get(bound).copied().unwrap_or(0.0);
            if rise < 0.0 {
                return None;
            }
            let upper = f64::from_bits(*bound);
            let count = (rise - below).max(0.0).round() as u64;
            if count > 0 {
                latency.buckets.push(Bucket {
                    lower_us,
                    upper_us: Some(upper).filter(|upper| upper.is_finite()),
                    count,
                });
            }
            // A page that was made while requests were counted may have a bucket below the one before.
            (lower_us, below) = (upper, rise.max(below));
        }
        let counted = self.count - before.count;
        latency.count = if counted > 0.0 { counted.round() as u64 } else { below.round() as u64 };
        (counted >= 0.0).then_some(latency)
    }
}

fn is_part_of(name: &str, metric: &Metric) -> bool {
    match name.strip_prefix(metric.name) {
        Some("") => true,
        Some(rest) => {
            matches!(metric.means, Means::Histogram(_)) && matches!(rest, "_bucket" | "_sum" | "_count")
        }
        None => false,
    }
}

/// Nothing where no sample has a number: zero is an answer.
fn value(page: &Page<'_>, metric: &Metric) -> Option<f64> {
    let fits = |label: Option<(&str, &str)>, of: &dyn Fn(&str) -> Option<String>| {
        label.is_none_or(|(name, value)| of(name).as_deref() == Some(value))
    };
    let samples = page.of(metric.name).iter();
    let numbers = samples
        .filter(|sample| fits(metric.only, &|name| sample.label(name).map(ToString::to_string)))
        .map(|sample| sample.value * metric.scale)
        .filter(|value| value.is_finite() && *value >= 0.0);
    numbers.reduce(|a, b| if metric.means.adds_up() { a + b } else { a.max(b) })
}

fn histogram(page: &Page<'_>, metric: &Metric) -> Option<Histogram> {
    let part = |suffix: &str| page.of(&format!("{}{suffix}", metric.name)).to_vec();
    let sum = |suffix: &str| -> f64 {
        part(suffix)
            .iter()
            .map(|sample| sample.value)
            .filter(|value| value.is_finite() && *value >= 0.0)
            .sum()
    };
    let mut histogram =
        Histogram { sum_us: sum("_sum") * metric.scale, count: sum("_count"), ..Histogram::default() };
    for sample in part("_bucket") {
        let bound = sample.label("le").and_then(|le| le.parse::<f64>().ok());
        // Below zero nothing takes, and bits of such numbers would not sort.
        let Some(bound) = bound.map(|bound| bound * metric.scale).filter(|bound| *bound >= 0.0) else {
            continue;
        };
        if sample.value.is_finite() && sample.value >= 0.0 {
            *histogram.buckets.entry(bound.to_bits()).or_default() += sample.value;
        }
    }
    (!histogram.buckets.is_empty()).then_some(histogram)
}

/// A name that the server chose, or whoever asked it for a model.
fn sanitize(model: &str) -> String {
    let mut sanitize: String = model.chars().filter(|c| !c.is_control()).collect();
    while sanitize.len() > MAX_MODEL_BYTES {
        sanitize.pop();
    }
    sanitize
}
