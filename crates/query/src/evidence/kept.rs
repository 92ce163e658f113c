//! Kept calls, read in one pass: where they were made, what the tails are made of, which of them failed.

use super::calls::{blame, parts};
use super::row::{Row, each_row, part_of_rows, rows, table_for};
use super::scope::Scope;
use crate::QueryError;
use gpuwhy_cause::Evidence;
use gpuwhy_cause::evidence::{FailedCalls, OpSums, Site, TailSum};
use gpuwhy_model::Blame;
use gpuwhy_store::Reader;
use std::collections::{BTreeMap, HashMap};

/// Of more kept calls than this only a part is looked at; all of those that were slow or failed.
const MAX_CALLS: u64 = 150_000;
const ERROR: u64 = 1;
const SLOW: u64 = 2;
const SAMPLE: u64 = 3;

pub(super) fn kept(
    reader: &Reader,
    times: [u64; 2],
    scope: &Scope,
    per_process: bool,
    evidence: &mut Evidence,
) -> Result<(), QueryError> {
    let ops: HashMap<u64, String> =
        reader.ops()?.into_iter().map(|op| (u64::from(op.id.0), op.name)).collect();
    let mut read = Read {
        limits: tail_limits(evidence, per_process, &ops),
        ops,
        kernels: Kernels::read(reader, times)?,
        every: every(reader, times)?,
        sites: HashMap::new(),
        tails: BTreeMap::new(),
        failed: BTreeMap::new(),
    };
    let table = table_for(reader, times, "calls c")?;
    // By time: which rows are looked at does not depend on where they lie.
    let sql = format!(
        "SELECT c.pid, c.op_id, c.stack_id, c.duration_ns, c.kept, c.sample_weight, c.handle, c.ret, c.timestamp_ns, {} \
         FROM {table} WHERE c.timestamp_ns >= ?1 AND c.timestamp_ns < ?2 AND {}{}",
        parts(),
        part_of_rows("c.timestamp_ns", read.every, &format!("c.kept IN ({ERROR}, {SLOW})")),
        scope.condition("c.pid", "c.timestamp_ns")
    );
    each_row(reader, &sql, times, |row| read.take(row))?;
    let Read { sites, tails, failed, .. } = read;
    evidence.failed_calls = failed.into_values().collect();
    evidence.failed_calls.sort_by(|a, b| (a.pid, &a.op, a.ret).cmp(&(b.pid, &b.op, b.ret)));
    let mut tails: Vec<TailSum> = tails.into_values().collect();
    tails.sort_by(|a, b| (a.pid, &a.op, &a.quantile).cmp(&(b.pid, &b.op, &b.quantile)));
    evidence.tails.extend(tails);
    evidence.sites = sites.into_values().collect();
    evidence
        .sites
        .sort_by(|a, b| (a.pid, &a.op, a.stack_id, &a.kernel).cmp(&(b.pid, &b.op, b.stack_id, &b.kernel)));
    Ok(())
}

/// Of how many calls that were neither slow nor failed one is looked at.
fn every(reader: &Reader, times: [u64; 2]) -> Result<u64, QueryError> {
    let sql = "SELECT sum(kept) FROM call_stats WHERE window_start_ns >= ?1 AND window_start_ns < ?2";
    let kept = rows(reader, sql, times)?.first().map_or(0, |row| row.number(0));
    Ok((kept / MAX_CALLS).max(1))
}

struct Read {
    ops: HashMap<u64, String>,
    kernels: Kernels,
    every: u64,
    limits: HashMap<(Option<u32>, u64), Limits>,
    sites: HashMap<(u32, u64, i64, Option<usize>), Site>,
    tails: BTreeMap<(Option<u32>, u64, &'static str), TailSum>,
    failed: BTreeMap<(u32, u64, i64), FailedCalls>,
}

impl Read {
    fn take(&mut self, row: &Row<'_>) {
        let (pid, op_id, duration_ns, kept) = (row.id(0), row.number(1), row.number(3), row.number(4));
        let Some(op) = self.ops.get(&op_id) else { return };
        let weight = match kept {
            ERROR | SLOW => 1,
            // Only a call that was drawn at random stands for others that were not kept.
            SAMPLE => row.number(5).max(1) * self.every,
            _ => self.every,
        };
        let stack_id = row.signed(2);
        if kept == ERROR {
            let ret = row.signed(7).unwrap_or(0);
            let at_ns = row.number(8);
            let failed = self.failed.entry((pid, op_id, ret)).or_insert_with(|| FailedCalls {
                pid,
                op: op.clone(),
                ret: ret as i32,
                count: 0,
                ns: 0,
                first_ns: at_ns,
                last_ns: at_ns,
                stack_id: None,
            });
            failed.count += 1;
            failed.ns += duration_ns;
            failed.first_ns = failed.first_ns.min(at_ns);
            failed.last_ns = failed.last_ns.max(at_ns);
            failed.stack_id = failed.stack_id.max(stack_id);
        }
        for of in [None, Some(pid)] {
            for (quantile, p_ns) in self.limits.get(&(of, op_id)).into_iter().flatten() {
                if duration_ns < *p_ns {
                    continue;
                }
                let tail = self.tails.entry((of, op_id, quantile)).or_insert_with(|| TailSum {
                    pid: of,
                    op: op.clone(),
                    quantile: (*quantile).into(),
                    p_ns: *p_ns,
                    ..TailSum::default()
                });
                add_weighted(&mut tail.blame, &blame(row, 9), weight);
            }
        }
        let Some(stack_id) = stack_id else { return };
        let kernel = row.signed(6).and_then(|handle| self.kernels.numbers.get(&(pid, handle)).copied());
        let site = self.sites.entry((pid, op_id, stack_id, kernel)).or_insert_with(|| Site {
            pid,
            op: op.clone(),
            stack_id,
            kernel: kernel.and_then(|number| self.kernels.names.get(number).cloned()),
            calls: 0,
            ns: 0,
            slow_ns: 0,
        });
        site.calls += weight;
        site.ns += duration_ns * weight;
        site.slow_ns += if kept == SLOW { duration_ns * weight } else { 0 };
    }
}

fn add_weighted(sum: &mut Blame, part: &Blame, weight: u64) {
    sum.oncpu_ns += part.oncpu_ns * weight;
    sum.runq_ns += part.runq_ns * weight;
    for (sum, ns) in sum.blocked_ns.iter_mut().zip(part.blocked_ns) {
        *sum += ns * weight;
    }
}

/// A quantile's name, and the duration from which on calls are counted.
type Limits = Vec<(&'static str, u64)>;

/// The quantiles of each operation, of all processes together and of each by itself where that is wanted; the median is
/// told by the exact sums.
fn tail_limits(
    evidence: &mut Evidence,
    per_process: bool,
    ops: &HashMap<u64, String>,
) -> HashMap<(Option<u32>, u64), Limits> {
    let numbers: HashMap<&str, u64> = ops.iter().map(|(number, op)| (op.as_str(), *number)).collect();
    let mut all: BTreeMap<(Option<u32>, &str), OpSums> = BTreeMap::new();
    for sums in &evidence.sums {
        for pid in [None, Some(sums.pid)].into_iter().take(if per_process { 2 } else { 1 }) {
            all.entry((pid, &sums.op)).or_default().merge(sums);
        }
    }
    let mut limits = HashMap::new();
    let mut medians = Vec::new();
    for ((pid, op), sums) in all {
        let at = |q: f64| sums.quantile_ns(q);
        medians.push(TailSum {
            pid,
            op: op.into(),
            quantile: "p50".into(),
            p_ns: at(0.5),
            blame: sums.blame,
        });
        if let Some(number) = numbers.get(op) {
            limits.insert((pid, *number), vec![("p95", at(0.95)), ("p99", at(0.99)), ("p99.9", at(0.999))]);
        }
    }
    evidence.tails = medians;
    limits
}

/// Names of kernels, each once.
#[derive(Default)]
struct Kernels {
    names: Vec<String>,
    /// By process and handle.
    numbers: HashMap<(u32, i64), usize>,
}

impl Kernels {
    fn read(reader: &Reader, times: [u64; 2]) -> Result<Kernels, QueryError> {
        let mut kernels = Kernels::default();
        let mut known: HashMap<String, usize> = HashMap::new();
        for row in rows(reader, "SELECT pid, handle, name FROM kernels WHERE name <> ''", times)? {
            let (handle, name) = (row.text(1), row.text(2));
            let Ok(handle) = u64::from_str_radix(handle.trim_start_matches("0x"), 16) else { continue };
            let number = *known.entry(name).or_insert_with_key(|name| {
                kernels.names.push(name.clone());
                kernels.names.len() - 1
            });
            kernels.numbers.insert((row.id(0), handle as i64), number);
        }
        Ok(kernels)
    }
}
