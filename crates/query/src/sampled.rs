//! Kept calls of a time: all of them or, where there are more than can be read in a moment, a sample of each part of that
//! time, so that an answer takes as long from millions of calls as from thousands.

use crate::QueryError;
use crate::evidence::blame;
use crate::evidence::row::{Row, each_row, rows};
use gpuwhy_cause::shares_by_cause;
use gpuwhy_model::{Cause, Layer, OpId, OpInfo, Reason, Span};
use gpuwhy_store::Reader;
use std::collections::HashMap;

/// Of more calls than this a sample is read.
const MAX: u64 = 60_000;
/// The parts of the time that a sample is drawn from.
const PARTS: u64 = 240;

/// A kept call, and how many it stands for.
#[derive(Debug)]
pub(crate) struct WeightedCall<'a> {
    pub(crate) start_ns: u64,
    pub(crate) duration_ns: u64,
    pub(crate) op: &'a str,
    pub(crate) pid: u32,
    pub(crate) tid: u32,
    pub(crate) failed: bool,
    pub(crate) stack_id: Option<i64>,
    /// Its time by cause, in percent.
    pub(crate) causes: Vec<(Cause, f64)>,
    pub(crate) weight: f64,
    /// Kept calls it stands for: more than itself where only a sample is read.
    pub(crate) kept: f64,
    /// An ioctl, not a call of a library.
    pub(crate) of_driver: bool,
}

/// Which calls are wanted.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wanted<'a> {
    pub(crate) span: Span,
    pub(crate) pid: Option<u32>,
    pub(crate) op: Option<&'a str>,
}

/// Visits the calls; whether these are all that are on file.
pub(crate) fn each_kept(
    reader: &Reader,
    wanted: Wanted<'_>,
    mut visit: impl FnMut(&WeightedCall<'_>),
) -> Result<bool, QueryError> {
    let ops: HashMap<OpId, OpInfo> = reader.ops()?.into_iter().map(|op| (op.id, op)).collect();
    let mut clause = String::from("WHERE timestamp_ns >= ?1 AND timestamp_ns < ?2");
    if let Some(pid) = wanted.pid {
        clause += &format!(" AND pid = {pid}");
    }
    if let Some(name) = wanted.op {
        let Some(op) = ops.values().find(|op| op.name == name) else { return Ok(true) };
        clause += &format!(" AND op_id = {}", op.id.0);
    }
    let reasons = Reason::ALL.map(Reason::column).join(", ");
    let select = format!(
        "SELECT timestamp_ns, duration_ns, op_id, pid, tid, kept, sample_weight, stack_id, oncpu_ns, runq_ns, {reasons} FROM calls {clause}"
    );
    let mut pass = |row: &Row<'_>, scale: f64| {
        let Some(op) = ops.get(&OpId(row.number(2) as u16)) else { return };
        // Only a call that was drawn at random stands for others.
        let weight = if row.number(5) == 3 { row.number(6).max(1) } else { 1 };
        visit(&WeightedCall {
            start_ns: row.number(0),
            duration_ns: row.number(1),
            op: &op.name,
            pid: row.id(3),
            tid: row.id(4),
            failed: row.number(5) == 1,
            stack_id: row.signed(7),
            causes: shares_by_cause(Some(op), &blame(row, 8)),
            weight: weight as f64 * scale,
            kept: scale,
            of_driver: op.layer == Layer::Driver,
        });
    };
    let Span { start_ns, end_ns } = wanted.span;
    let times = [start_ns, end_ns.saturating_add(1)];
    let count = format!("SELECT count(*) FROM (SELECT 1 FROM calls {clause} LIMIT {})", MAX + 1);
    if rows(reader, &count, times)?.first().map_or(0, |row| row.number(0)) <= MAX {
        each_row(reader, &select, times, |row| pass(row, 1.0))?;
        return Ok(true);
    }
    let some = format!("{select} ORDER BY timestamp_ns LIMIT {}", MAX / PARTS);
    let step = (wanted.span.ns() / PARTS).max(1);
    for part in 0..=PARTS {
        let from = start_ns + part * step;
        let to = (from + step).min(times[1]);
        if from >= to {
            break;
        }
        let mut read: Vec<Vec<gpuwhy_store::Value>> = Vec::new();
        reader.select_each(&some, &[(from as i64).into(), (to as i64).into()], |row| {
            read.push(row.to_vec());
        })?;
        // What was read covers the time up to its last call; the rest of the part is taken to be alike.
        let last = read.last().map_or(to, |row| Row::of(row).number(0));
        let cut = read.len() as u64 == MAX / PARTS && last > from;
        let scale = if cut { step as f64 / (last - from) as f64 } else { 1.0 };
        for row in &read {
            pass(&Row::of(row), scale.max(1.0));
        }
    }
    Ok(false)
}
