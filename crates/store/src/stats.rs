//! One row of `call_stats`: the exact sums over all calls of one operation by one process in one window.

use crate::schema::sums::CALL_STATS;
use gpuwhy_model::{Blame, CallWindow, Histogram};
use rusqlite::Row;
use serde::Serialize;
use std::fmt::Write;

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct CallStats {
    pub window_start_ns: u64,
    pub window_ns: u64,
    pub pid: u32,
    pub op: String,
    pub count: u64,
    pub sum_ns: u64,
    pub min_ns: u64,
    pub max_ns: u64,
    pub hist: Histogram,
    pub errors: u64,
    pub kept: u64,
    pub bytes: u64,
    pub blame: Blame,
}

impl CallStats {
    /// Of a thread's window.
    pub(crate) fn of(window: &CallWindow, op: &str) -> CallStats {
        CallStats {
            window_start_ns: window.window_start_ns,
            window_ns: window.window_ns,
            pid: window.pid,
            op: op.into(),
            count: window.count,
            sum_ns: window.sum_ns,
            min_ns: window.min_ns,
            max_ns: window.max_ns,
            hist: window.hist.clone(),
            errors: window.errors,
            kept: window.kept,
            bytes: window.bytes,
            blame: window.blame,
        }
    }

    /// Sums two; process and operation stay those of the first.
    pub fn merge(&mut self, other: &CallStats) {
        self.min_ns = match (self.count, other.count) {
            (0, _) => other.min_ns,
            (_, 0) => self.min_ns,
            _ => self.min_ns.min(other.min_ns),
        };
        let end = (self.window_start_ns + self.window_ns).max(other.window_start_ns + other.window_ns);
        self.window_start_ns = self.window_start_ns.min(other.window_start_ns);
        self.window_ns = end - self.window_start_ns;
        self.count += other.count;
        self.sum_ns += other.sum_ns;
        self.max_ns = self.max_ns.max(other.max_ns);
        self.hist.merge(&other.hist);
        self.errors += other.errors;
        self.kept += other.kept;
        self.bytes += other.bytes;
        self.blame.add(&other.blame);
    }

    /// The duration below which a share `q` of the calls lies; never longer than the longest.
    pub fn quantile_ns(&self, q: f64) -> u64 {
        self.hist.quantile_ns(q).min(self.max_ns)
    }

    /// Of a row of the table, all columns in their order.
    pub(crate) fn from_row(row: &Row<'_>) -> rusqlite::Result<CallStats> {
        // Files of earlier versions say nothing of the reasons that were added later.
        let number = |at: usize| row.get::<_, Option<i64>>(at).map(|n| n.unwrap_or(0) as u64);
        macro_rules! get {
            ($column:literal) => {
                number(const { CALL_STATS.place($column) })?
            };
        }
        let mut blame = Blame { oncpu_ns: get!("oncpu_ns"), runq_ns: get!("runq_ns"), ..Blame::default() };
        for (ns, place) in blame.blocked_ns.iter_mut().zip(const { CALL_STATS.reasons() }) {
            *ns = number(place)?;
        }
        Ok(CallStats {
            window_start_ns: get!("window_start_ns"),
            window_ns: get!("window_ns"),
            pid: row.get(const { CALL_STATS.place("pid") })?,
            op: row.get(const { CALL_STATS.place("op") })?,
            count: get!("count"),
            sum_ns: get!("sum_ns"),
            min_ns: get!("min_ns"),
            max_ns: get!("max_ns"),
            hist: parse_hist(row.get_ref(const { CALL_STATS.place("hist") })?.as_str()?),
            errors: get!("errors"),
            kept: get!("kept"),
            bytes: get!("bytes"),
            blame,
        })
    }
}

pub(crate) fn hist_json(hist: &Histogram) -> String {
    let mut json = String::from("{");
    for (place, (bucket, n)) in hist.counts().iter().enumerate() {
        let comma = if place == 0 { "" } else { "," };
        // Writing to a String cannot fail.
        let _ = write!(json, "{comma}\"{bucket}\":{n}");
    }
    json.push('}');
    json
}

fn parse_hist(json: &str) -> Histogram {
    let mut hist = Histogram::default();
    for pair in json.trim_matches(['{', '}']).split(',') {
        let Some((bucket, n)) = pair.split_once(':') else { continue };
        if let (Ok(bucket), Ok(n)) = (bucket.trim().trim_matches('"').parse(), n.trim().parse()) {
            hist.add_bucket(bucket, n);
        }
    }
    hist
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_histogram_survives_its_json() {
        let mut hist = Histogram::default();
        for ns in [10, 900, 900, 70_000, 3_000_000_000] {
            hist.record(ns);
        }
        let json = hist_json(&hist);
        assert_eq!(parse_hist(&json), hist);
        assert!(serde_json::from_str::<serde_json::Value>(&json).unwrap().is_object());
        assert_eq!(parse_hist("{}"), Histogram::default());
    }

    #[test]
    fn sums_merge_exactly() {
        let mut sum = CallStats::default();
        let one =
            CallStats { window_start_ns: 100, window_ns: 10, count: 2, min_ns: 5, max_ns: 9, ..sum.clone() };
        let two =
            CallStats { window_start_ns: 110, window_ns: 10, count: 1, min_ns: 7, max_ns: 30, ..sum.clone() };
        sum = one;
        sum.merge(&two);
        assert_eq!(
            (sum.window_start_ns, sum.window_ns, sum.count, sum.min_ns, sum.max_ns),
            (100, 20, 3, 5, 30)
        );
    }
}
