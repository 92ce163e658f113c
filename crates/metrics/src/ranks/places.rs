//! Where in their programs ranks are while they are in no call, and what they do there: of a rank that drags its peers that is
//! the line to look at.

use super::lines::Lines;
use gpuwhy_model::{Batch, Cause};
use std::collections::HashMap;

/// Lines of a rank that are told.
const MAX_REPORTED: usize = 4;
/// Lines of a rank that are counted between two reports.
const MAX_COUNTED: usize = 256;

/// A line and what the rank's thread lost, or did, there.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct PlaceShare {
    pub(super) class: Cause,
    pub(super) line: String,
    /// Of the time since the last report.
    pub(super) share: f64,
}

/// Nanoseconds since the last report by process, and there by thread, cause and line.
#[derive(Debug, Default)]
pub(super) struct Places(HashMap<u32, HashMap<(u32, Cause, String), u64>>);

impl Places {
    pub(super) fn take(&mut self, batch: &Batch, lines: &Lines) {
        for seen in batch.between_calls.iter().filter(|seen| seen.is_between_calls()) {
            let Some(line) = seen.stack_id.and_then(|id| lines.own(id)) else { continue };
            let of_process = self.0.entry(seen.pid).or_default();
            // Who had its CPU is not known of a single moment; that somebody had, is.
            let somebody = seen.pid;
            let key = (seen.tid, Cause::of_part(None, seen.part, somebody), line.to_string());
            if of_process.len() < MAX_COUNTED || of_process.contains_key(&key) {
                *of_process.entry(key).or_default() += seen.weight_ns;
            }
        }
    }

    pub(super) fn forget(&mut self, pid: u32) {
        self.0.remove(&pid);
    }

    /// Those that took most of a thread's time in the last `wall_ns`.
    pub(super) fn reported(&mut self, pid: u32, tid: Option<u32>, wall_ns: u64) -> Vec<PlaceShare> {
        let counted = self.0.remove(&pid).unwrap_or_default();
        let share = |ns: u64| (ns as f64 / wall_ns.max(1) as f64).min(1.0);
        let mut reported: Vec<PlaceShare> = counted
            .into_iter()
            .filter(|((of, ..), _)| Some(*of) == tid)
            .map(|((_, class, line), ns)| PlaceShare { class, line, share: share(ns) })
            .collect();
        reported.sort_by(|a, b| b.share.total_cmp(&a.share).then_with(|| a.line.cmp(&b.line)));
        reported.truncate(MAX_REPORTED);
        reported
    }
}
