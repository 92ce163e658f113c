//! What the server counts of itself.

use serde_json::{Value, json};
use std::sync::atomic::{AtomicU64, Ordering};

#[derive(Debug, Default)]
pub struct Tally {
    pushes: AtomicU64,
    rows: AtomicU64,
    duplicates: AtomicU64,
    duplicate_rows: AtomicU64,
    left_out: AtomicU64,
    busy: AtomicU64,
    refused: AtomicU64,
    failures: AtomicU64,
    forgotten: AtomicU64,
    behind_bytes: AtomicU64,
    lag_ms: AtomicU64,
}

fn add(counter: &AtomicU64, count: usize) {
    counter.fetch_add(count as u64, Ordering::Relaxed);
}

impl Tally {
    pub(crate) fn stored(&self, rows: usize) {
        add(&self.pushes, 1);
        add(&self.rows, rows);
    }

    pub(crate) fn duplicate(&self, rows: usize) {
        add(&self.duplicates, 1);
        add(&self.duplicate_rows, rows);
    }

    /// Points of taken pushes that were not taken.
    pub(crate) fn left_out(&self, points: u64) {
        self.left_out.fetch_add(points, Ordering::Relaxed);
    }

    /// A push that was told to come later.
    pub(crate) fn busy(&self) {
        add(&self.busy, 1);
    }

    /// A push that is not to come again.
    pub(crate) fn refused(&self) {
        add(&self.refused, 1);
    }

    pub(crate) fn failed(&self) {
        add(&self.failures, 1);
    }

    pub(crate) fn forgotten(&self, rows: u64) {
        self.forgotten.fetch_add(rows, Ordering::Relaxed);
    }

    /// Bytes of the journal that the store does not have yet.
    pub(crate) fn behind(&self, bytes: u64) {
        self.behind_bytes.store(bytes, Ordering::Relaxed);
    }

    /// How long the oldest push of the latest group had waited when it was stored.
    pub(crate) fn lag(&self, ns: i64) {
        self.lag_ms.store(u64::try_from(ns).unwrap_or(0) / 1_000_000, Ordering::Relaxed);
    }

    /// Since the server began.
    pub fn json(&self) -> Value {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        json!({
            "pushes": get(&self.pushes), "rows": get(&self.rows),
            "duplicate_pushes": get(&self.duplicates), "duplicate_rows": get(&self.duplicate_rows),
            "left_out_points": get(&self.left_out), "busy_pushes": get(&self.busy),
            "refused_pushes": get(&self.refused), "failed_writes": get(&self.failures),
            "forgotten_rows": get(&self.forgotten), "journal_bytes_to_store": get(&self.behind_bytes),
            "store_lag_ms": get(&self.lag_ms),
        })
    }
}
