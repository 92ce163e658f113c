//! Inference servers, as they described themselves last.

use super::panel::{Panel, odd, plain};
use super::view::View;
use gpuwhy_model::units::{count, duration, printable};
use gpuwhy_model::{Latency, ServerSample, Signal};
use ratatui::text::Line;

/// From here on a cache is full for all that it matters.
const NEARLY_FULL_PCT: f64 = 95.0;

pub(super) fn panel(view: &View<'_>) -> Option<Panel> {
    let mut panel = Panel::new("server", "server_samples")
        .column("running")
        .column("waiting")
        .column("KV cache")
        .column("TTFT p50")
        .column("p99")
        .column("token p50")
        .column("p99")
        .column("tokens/s")
        .text("at")
        .spare(1);
    for sample in view.overview.servers.values() {
        let [ttft_50, ttft_99] = quantiles(sample, Signal::Ttft);
        let [itl_50, itl_99] = quantiles(sample, Signal::Itl);
        panel.row(vec![
            plain(printable(&sample.server)),
            plain(number(sample.running)),
            plain(number(sample.waiting)),
            cache(sample),
            ttft_50,
            ttft_99,
            itl_50,
            itl_99,
            plain(number(sample.generation_tokens_per_s)),
            plain(printable(sample.url.trim_start_matches("http://").trim_end_matches("/metrics"))),
        ]);
    }
    panel.if_any()
}

fn number(value: Option<f64>) -> String {
    value.map_or_else(String::new, |value| count(value.round() as u64))
}

fn cache(sample: &ServerSample) -> Line<'static> {
    match sample.kv_cache_pct {
        Some(pct) if pct >= NEARLY_FULL_PCT => odd(format!("{pct:.0}%")),
        Some(pct) => plain(format!("{pct:.0}%")),
        None => plain(""),
    }
}

/// Empty where nothing was measured.
fn quantiles(sample: &ServerSample, signal: Signal) -> [Line<'static>; 2] {
    let latency: Option<&Latency> = sample.latencies.get(&signal);
    [0.5, 0.99].map(|q| {
        let found = latency.and_then(|latency| latency.quantile(q));
        plain(found.map_or_else(String::new, |found| duration((found.us * 1e3) as u64)))
    })
}
