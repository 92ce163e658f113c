//! Samples of inference servers as the file keeps them.

use super::Reader;
use super::records::{maybe, number, text};
use crate::StoreError;
use gpuwhy_model::{Bucket, Latency, ServerSample, Signal};
use rusqlite::{Row, params};
use std::collections::BTreeMap;

/// More than a day of four servers.
const MAX_ROWS: usize = 400_000;

impl Reader {
    /// From a time until before another, in their order.
    pub fn server_samples(&self, from_ns: u64, to_ns: u64) -> Result<Vec<ServerSample>, StoreError> {
        let latencies: Vec<String> = Signal::ALL
            .iter()
            .map(|signal| format!("{0}_count, {0}_mean_us, {0}_buckets", signal.name()))
            .collect();
        let sql = format!(
            "SELECT timestamp_ns, window_ns, server, url, pid, model, running, waiting, kv_cache_pct, preemptions, requests, \
             prompt_tokens_per_s, generation_tokens_per_s, spec_accept_pct, {} FROM server_samples \
             WHERE timestamp_ns >= ?1 AND timestamp_ns < ?2 ORDER BY timestamp_ns, url LIMIT {MAX_ROWS}",
            latencies.join(", ")
        );
        let ns = |ns: u64| ns.min(i64::MAX as u64) as i64;
        self.rows(&sql, params![ns(from_ns), ns(to_ns)], sample)
    }
}

fn sample(row: &Row<'_>) -> rusqlite::Result<ServerSample> {
    const FIRST: usize = 14;
    let mut latencies = BTreeMap::new();
    for (at, signal) in Signal::ALL.into_iter().enumerate() {
        let at = FIRST + 3 * at;
        let Some(count) = maybe(row, at)? else { continue };
        let mean: f64 = row.get::<_, Option<f64>>(at + 1)?.unwrap_or(0.0);
        let buckets: Vec<(f64, Option<f64>, u64)> =
            serde_json::from_str(&text(row, at + 2)?).unwrap_or_default();
        let buckets = buckets
            .into_iter()
            .map(|(lower_us, upper_us, count)| Bucket { lower_us, upper_us, count })
            .collect();
        latencies.insert(signal, Latency { count, sum_us: mean * count as f64, buckets });
    }
    Ok(ServerSample {
        time_ns: number(row, 0)?,
        window_ns: number(row, 1)?,
        server: text(row, 2)?,
        url: text(row, 3)?,
        pid: row.get(4)?,
        model: text(row, 5)?,
        running: row.get(6)?,
        waiting: row.get(7)?,
        kv_cache_pct: row.get(8)?,
        preemptions: maybe(row, 9)?,
        requests: maybe(row, 10)?,
        prompt_tokens_per_s: row.get(11)?,
        generation_tokens_per_s: row.get(12)?,
        spec_accept_pct: row.get(13)?,
        latencies,
    })
}
