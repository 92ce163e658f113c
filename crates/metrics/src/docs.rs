//! docs/metrics.md

use crate::distribution;
use crate::owners::MAX_OWNERS;
use crate::points::MAX_SERIES;
use crate::{METRICS, Unit};

/// The page of all metrics.
pub fn markdown() -> String {
    let bounds: Vec<f64> = distribution::bounds().collect();
    let (first, last) = (bounds.first().copied().unwrap_or(0.0), bounds.last().copied().unwrap_or(0.0));
    let mut out = format!(
        "# Metrics\n\n\
         Made from the `METRICS` table by `make docs`. The same numbers are on the Prometheus page (`gpuwhy trace --prometheus`) and \
         in what is pushed by OTLP (`gpuwhy trace --otlp`). Prometheus renames what it gets by OTLP to the very names of the page. \
         Units are base units. Counters and histograms count from the start of the trace; OTLP gets them cumulative.\n\n\
         ## Labels and their cap\n\n\
         `process` is the process's name, `rank` its rank, `pod` its `namespace/pod`; a label that has nothing to say is left out. \
         Processes that have all three in common share their series. At most {MAX_OWNERS} such owners are told apart: beyond, one whose processes \
         have all ended makes room, and its sums go to `process=\"other\"`; where none has ended, newcomers are `other`. A metric has at most {MAX_SERIES} series; \
         what is beyond is summed in one whose labels are all `other`. Sums over all series stay exact.\n\n\
         ## Histograms\n\n\
         Counts and sums are exact. Classic buckets are octaves of nanoseconds: {} bounds from {first:e} to {last} seconds, each one nanosecond below a power of two, where \
         buckets of the kernel end, so each call is on its right side. Native (exponential) buckets have scale 3; a bucket of the kernel goes there as a whole by its middle, which \
         shows a call at most 6.25% from where it was (below 512 ns: 32 ns). Native ones are on the page where Prometheus asks for protobuf, and in OTLP with \
         `OTEL_EXPORTER_OTLP_METRICS_DEFAULT_HISTOGRAM_AGGREGATION=base2_exponential_bucket_histogram`.\n\n\
         Exemplars name the latest slow or failed call of a bucket: `timestamp_ns` and `stack_id` find it in the trace file (`SELECT * FROM events WHERE \
         timestamp_ns = ...`), `trace_id` and `span_id` are those of the span that OTLP gets of it. OTLP gets each once.\n\n\
         ## Pushed to Prometheus 3\n\n\
         `gpuwhy trace --otlp http://HOST:9090/api/v1/otlp` needs a Prometheus that was started with `--web.enable-otlp-receiver` (Debian's is built without it: let \
         that one scrape `--prometheus`). `job` becomes `gpuwhy`, `instance` the host's name; `OTEL_SERVICE_NAME` and `OTEL_RESOURCE_ATTRIBUTES=service.instance.id=...` \
         change them, which two traces at once on one host need: Prometheus refuses what it has of the same series and time. Exponential histograms need \
         `--enable-feature=native-histograms`, exemplars `--enable-feature=exemplar-storage`. Prometheus takes metrics alone: logs and spans are tried once, said \
         in a line and counted as refused.\n\n\
         ## All of them\n\n\
         | Prometheus | OTLP | kind | unit | labels | about |\n|---|---|---|---|---|---|\n",
        bounds.len(),
    );
    for metric in METRICS {
        let labels: Vec<String> = metric.labels.iter().map(|label| format!("`{label}`")).collect();
        let unit = if let Unit::Each(_) = metric.unit { "" } else { metric.unit.suffix() };
        out += &format!(
            "| `{}` | `{}` | {} | {} | {} | {} |\n",
            metric.prometheus_name(),
            metric.name,
            metric.kind.name(),
            unit.replace('_', " "),
            labels.join(", "),
            metric.about,
        );
    }
    out
}
