//! The frames of every stack that a finding may name.

use super::row::rows;
use crate::QueryError;
use gpuwhy_cause::Evidence;
use gpuwhy_model::{Frame, FrameKind};
use gpuwhy_store::Reader;
use std::collections::{BTreeMap, BTreeSet};

/// Stacks asked for at once.
const AT_ONCE: usize = 500;
/// Call sites of each operation that may be the worst.
const MAX_SITES: usize = 2_000;
/// Stacks of samples, those with most time first.
const MAX_SAMPLED: usize = 5_000;

pub(super) fn frames(reader: &Reader, evidence: &mut Evidence) -> Result<(), QueryError> {
    for ids in wanted(evidence).into_iter().collect::<Vec<_>>().chunks(AT_ONCE) {
        let ids: Vec<String> = ids.iter().map(ToString::to_string).collect();
        let sql = format!(
            "SELECT stack_id, kind, function, file, line, module FROM frames WHERE stack_id IN ({}) ORDER BY stack_id, depth",
            ids.join(", ")
        );
        for row in rows(reader, &sql, [0, 0])? {
            let kind = match row.text(1).as_str() {
                "python" => FrameKind::Python,
                "kernel" => FrameKind::Kernel,
                _ => FrameKind::Native,
            };
            let frame = Frame {
                kind,
                function: row.maybe_text(2),
                file: row.maybe_text(3),
                line: row.maybe(4).map(|line| line as u32),
                module: row.text(5),
                ..Frame::default()
            };
            evidence.frames.entry(row.signed(0).unwrap_or(0)).or_default().push(frame);
        }
    }
    Ok(())
}

/// Of the samples, the stacks with most time.
fn sampled(evidence: &Evidence) -> impl Iterator<Item = i64> {
    let mut weights: BTreeMap<i64, u64> = BTreeMap::new();
    for sample in &evidence.activity.samples {
        if let Some(id) = sample.stack_id {
            *weights.entry(id).or_default() += sample.weight_ns;
        }
    }
    let mut ids: Vec<(i64, u64)> = weights.into_iter().collect();
    ids.sort_by_key(|(id, weight)| (std::cmp::Reverse(*weight), *id));
    ids.into_iter().take(MAX_SAMPLED).map(|(id, _)| id)
}

fn wanted(evidence: &Evidence) -> BTreeSet<i64> {
    let mut sites: Vec<_> = evidence.sites.iter().collect();
    sites.sort_by_key(|site| (std::cmp::Reverse(site.slow_ns.max(site.ns)), site.stack_id));
    let mut ids: BTreeSet<i64> = sites.iter().take(MAX_SITES).map(|site| site.stack_id).collect();
    ids.extend(evidence.waits.iter().filter_map(|wait| wait.stack_id));
    ids.extend(evidence.wait_sites.iter().map(|site| site.stack_id));
    ids.extend(evidence.holders.iter().filter_map(|held| held.stack_id));
    ids.extend(evidence.graphs.iter().filter_map(|graph| graph.stack_id));
    ids.extend(evidence.failed_calls.iter().filter_map(|call| call.stack_id));
    ids.extend(evidence.in_flight.iter().filter_map(|hanging| hanging.call.stack_id));
    ids.extend(sampled(evidence));
    for failure in &evidence.memory_failures {
        ids.extend(failure.stack_id);
        ids.extend(failure.holders.iter().filter_map(|holder| holder.stack_id));
    }
    // One of each rank will do.
    let mut ranks = BTreeSet::new();
    for arrival in evidence.collectives.iter().rev() {
        if arrival.stack_id.is_some() && ranks.insert((&arrival.comm, arrival.rank, &arrival.op)) {
            ids.extend(arrival.stack_id);
        }
    }
    ids
}
