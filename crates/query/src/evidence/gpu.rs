//! The GPU's side: streams, copies, graphs, memory, counters and errors.

use super::row::{Row, rows};
use super::scope::Scope;
use crate::QueryError;
use crate::estimates::Estimates;
use gpuwhy_cause::Evidence;
use gpuwhy_cause::evidence::{GpuSum, GraphSum, HeldMemory, KernelLaunches, StreamTime};
use gpuwhy_model::{CallClass, GpuError, Holder, MemoryFailure, MemoryKind, MemoryUse, OpId, Span};
use gpuwhy_store::Reader;
use serde_json::Value as Json;
use std::collections::BTreeMap;

pub(super) fn work(
    reader: &Reader,
    times: [u64; 2],
    scope: &Scope,
    evidence: &mut Evidence,
) -> Result<(), QueryError> {
    let windows = scope.condition("pid", "window_start_ns");
    let sql = format!(
        "SELECT window_start_ns, max(window_ns), pid, sum(launches), max(busy_lower_ns), sum(busy_upper_ns) FROM gpu_time \
               WHERE window_start_ns >= ?1 AND window_start_ns < ?2{windows} GROUP BY 1, 3 ORDER BY 1, 3"
    );
    let estimates = Estimates::read(reader, evidence.span)?;
    for row in rows(reader, &sql, times)? {
        let mut time = StreamTime {
            window_start_ns: row.number(0),
            window_ns: row.number(1),
            pid: row.id(2),
            launches: row.number(3),
            busy_lower_ns: row.number(4),
            busy_upper_ns: row.number(5),
        };
        let watched = estimates.as_ref().and_then(|all| all.watched(CallClass::Launches, time.pid));
        let window = Span {
            start_ns: time.window_start_ns,
            end_ns: time.window_start_ns.saturating_add(time.window_ns),
        };
        // What was submitted while nobody watched may have kept it busy.
        if watched.is_some_and(|watched| watched.ns_within(window) < window.ns()) {
            time.busy_upper_ns = time.window_ns;
        }
        evidence.gpu_times.push(time);
    }
    let made = scope.condition("pid", "created_ns");
    let sql = format!(
        "SELECT pid, count(*), sum(capture_ns), sum(instantiate_ns), sum(launches), sum(updates), min(created_ns), \
               max(created_ns), max(stack_id) FROM graphs WHERE created_ns >= ?1 AND created_ns < ?2 AND graph <> '0x0'{made} \
               GROUP BY 1 ORDER BY 1"
    );
    for row in rows(reader, &sql, times)? {
        evidence.graphs.push(GraphSum {
            pid: row.id(0),
            graphs: row.number(1),
            capture_ns: row.number(2),
            instantiate_ns: row.number(3),
            launches: row.number(4),
            updates: row.number(5),
            first_ns: row.number(6),
            last_ns: row.number(7),
            stack_id: row.signed(8),
        });
    }
    Ok(())
}

fn kind(name: &str) -> MemoryKind {
    let kinds = [MemoryKind::Device, MemoryKind::Managed, MemoryKind::Host, MemoryKind::Registered];
    kinds.into_iter().find(|kind| kind.name() == name).unwrap_or(MemoryKind::Device)
}

/// How often kernels were launched; files of earlier versions do not tell when.
pub(super) fn kernels(reader: &Reader, times: [u64; 2], evidence: &mut Evidence) -> Result<(), QueryError> {
    let sql = "SELECT pid, sum(launches), max(last_ns) FROM kernels WHERE launches > 0 AND last_ns IS NOT NULL \
               GROUP BY pid, ifnull(mangled, handle) ORDER BY 1, 2 LIMIT 100000";
    let rows = rows(reader, sql, times)?;
    let of =
        |row: &Row<'_>| KernelLaunches { pid: row.id(0), launches: row.number(1), last_ns: row.number(2) };
    evidence.kernels = rows.iter().map(of).collect();
    Ok(())
}

pub(super) fn memory(reader: &Reader, times: [u64; 2], evidence: &mut Evidence) -> Result<(), QueryError> {
    let sql = "SELECT timestamp_ns, pid, gpu, kind, live_bytes, peak_bytes, live_count, allocated_bytes, freed_bytes, failures \
               FROM memory_stats WHERE timestamp_ns >= ?1 AND timestamp_ns < ?2 ORDER BY 1, 2, 3, 4 LIMIT 500000";
    for row in rows(reader, sql, times)? {
        evidence.memory.push(MemoryUse {
            time_ns: row.number(0),
            pid: row.id(1),
            gpu: row.maybe(2).map(|gpu| gpu as u16),
            kind: kind(&row.text(3)),
            live_bytes: row.number(4),
            peak_bytes: row.number(5),
            live_count: row.number(6),
            allocated_bytes: row.number(7),
            freed_bytes: row.number(8),
            failures: row.number(9),
        });
    }
    let sql = "SELECT f.timestamp_ns, f.pid, f.tid, f.op, f.bytes, f.ret, f.gpu, f.stack_id, f.live_bytes, f.holders \
               FROM memory_failures f WHERE f.timestamp_ns >= ?1 AND f.timestamp_ns < ?2 ORDER BY 1, 2, 3 LIMIT 10000";
    for row in rows(reader, sql, times)? {
        evidence.memory_failures.push(MemoryFailure {
            time_ns: row.number(0),
            pid: row.id(1),
            tid: row.id(2),
            op: evidence.ops.get(&row.text(3)).map_or(OpId::NONE, |op| op.id),
            bytes: row.number(4),
            ret: row.signed(5).unwrap_or(0) as i32,
            gpu: row.maybe(6).map(|gpu| gpu as u16),
            stack_id: row.signed(7),
            live_bytes: row.number(8),
            holders: holders(&row.text(9)),
        });
    }
    // What a process held until it ended was given back then.
    let sql = "SELECT pid, max(op), kind, stack_id, sum(bytes), count(*), min(allocated_ns), max(allocated_ns) FROM allocations a \
               WHERE freed_ns IS NULL OR freed_ns >= (SELECT max(p.end_ns) FROM processes p WHERE p.pid = a.pid) - 1000000000 \
               GROUP BY 1, 3, 4 \
               ORDER BY 5 DESC, 1, 3, 4 LIMIT 1000";
    for row in rows(reader, sql, times)? {
        evidence.holders.push(HeldMemory {
            pid: row.id(0),
            op: row.maybe_text(1),
            kind: kind(&row.text(2)),
            stack_id: row.signed(3),
            bytes: row.number(4),
            count: row.number(5),
            oldest_ns: row.number(6),
            newest_ns: row.number(7),
        });
    }
    Ok(())
}

fn holders(json: &str) -> Vec<Holder> {
    let list: Vec<Json> = serde_json::from_str(json).unwrap_or_default();
    list.iter()
        .map(|holder| Holder {
            pid: holder["pid"].as_u64().unwrap_or(0) as u32,
            stack_id: holder["stack_id"].as_i64(),
            bytes: holder["bytes"].as_u64().unwrap_or(0),
            count: holder["count"].as_u64().unwrap_or(0),
        })
        .collect()
}

pub(super) fn counters(reader: &Reader, times: [u64; 2], evidence: &mut Evidence) -> Result<(), QueryError> {
    let mut gpus: BTreeMap<u32, (GpuSum, Sums)> = BTreeMap::new();
    let sql = "SELECT gpu, name, throttle_reasons, sm_pct, sm_clock_mhz, sm_clock_max_mhz, temperature_c, power_mw, \
               power_limit_mw, memory_used_bytes, memory_total_bytes FROM gpu_samples \
               WHERE timestamp_ns >= ?1 AND timestamp_ns < ?2 AND mig IS NULL ORDER BY timestamp_ns, gpu LIMIT 500000";
    for row in rows(reader, sql, times)? {
        let (gpu, sums) = gpus.entry(row.id(0)).or_default();
        gpu.gpu = row.id(0);
        gpu.name = row.text(1);
        gpu.samples += 1;
        let reasons: Vec<String> = serde_json::from_str(&row.text(2)).unwrap_or_default();
        let clock = row.real(4);
        if let Some(pct) = row.real(3) {
            sums.sm.add(pct);
        }
        if let Some(clock) = clock {
            sums.clock.add(clock);
            if !reasons.is_empty() {
                sums.throttled.add(clock);
            }
        }
        for reason in reasons {
            *gpu.throttled.entry(reason).or_default() += 1;
        }
        gpu.clock_max_mhz = gpu.clock_max_mhz.into_iter().chain(row.real(5)).reduce(f64::max);
        gpu.temperature_c = gpu.temperature_c.max(row.maybe(6).map(|celsius| celsius as u32));
        gpu.power_mw = gpu.power_mw.max(row.maybe(7));
        gpu.power_limit_mw = gpu.power_limit_mw.max(row.maybe(8));
        gpu.memory_used_bytes = gpu.memory_used_bytes.max(row.maybe(9));
        gpu.memory_total_bytes = gpu.memory_total_bytes.max(row.maybe(10));
    }
    let sql = "SELECT gpu, pid, max(memory_bytes) FROM gpu_processes WHERE timestamp_ns >= ?1 AND timestamp_ns < ?2 \
               GROUP BY 1, 2 ORDER BY 1, 3 DESC, 2";
    for row in rows(reader, sql, times)? {
        if let Some((gpu, _)) = gpus.get_mut(&row.id(0)) {
            gpu.largest = gpu.largest.or(row.maybe(2).map(|bytes| (row.id(1), bytes)));
        }
    }
    for (mut gpu, sums) in gpus.into_values() {
        gpu.sm_pct = sums.sm.mean();
        gpu.clock_mhz = sums.clock.mean();
        gpu.clock_while_throttled_mhz = sums.throttled.mean();
        evidence.gpus.push(gpu);
    }
    let sql = "SELECT timestamp_ns, event, gpu, uuid, device, code, pid, message, source FROM gpu_errors \
               WHERE timestamp_ns >= ?1 AND timestamp_ns < ?2 ORDER BY 1, 2, 3 LIMIT 10000";
    for row in rows(reader, sql, times)? {
        evidence.gpu_errors.push(GpuError {
            time_ns: row.number(0),
            event: row.text(1),
            gpu: row.maybe(2).map(|gpu| gpu as u32),
            uuid: row.text(3),
            device: row.text(4),
            code: row.signed(5).unwrap_or(0),
            pid: row.maybe(6).map(|pid| pid as u32),
            message: row.text(7),
            source: row.text(8),
        });
    }
    Ok(())
}

#[derive(Debug, Default)]
struct Sums {
    sm: Mean,
    clock: Mean,
    throttled: Mean,
}

#[derive(Debug, Default)]
struct Mean {
    sum: f64,
    count: u64,
}

impl Mean {
    fn add(&mut self, value: f64) {
        self.sum += value;
        self.count += 1;
    }

    fn mean(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum / self.count as f64)
    }
}
