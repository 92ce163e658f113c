//! A stretch of a trace file as the batch and the facts it was made from, as far as metrics need them.

use gpuwhy_model::{
    Batch, Call, CallWindow, ColdStart, Collective, CollectiveWait, CopyWindow, Direction, Facts, Frame,
    GpuError, GpuSample, GpuTime, Kept, Level, Loss, MemoryKind, MemoryUse, NcclCall, OpId, OpInfo,
    ProbeState, Process, RdmaEvent, Stack, TcpEvent, TracingCost,
};
use gpuwhy_store::{Filter, Reader, StoreError, Value};
use std::collections::{HashMap, HashSet, VecDeque};

pub(super) struct Rows<'a> {
    reader: &'a Reader,
    ops: Vec<OpInfo>,
    by_name: HashMap<String, OpId>,
    /// Those that have not begun yet, and those that have not ended.
    coming: VecDeque<Process>,
    ending: Vec<Process>,
    losses: VecDeque<Loss>,
}

type Read<T> = Result<T, StoreError>;

impl<'a> Rows<'a> {
    pub(super) fn open(reader: &'a Reader) -> Read<Rows<'a>> {
        let ops = reader.ops()?;
        Ok(Rows {
            reader,
            by_name: ops.iter().map(|op| (op.name.clone(), op.id)).collect(),
            ops,
            coming: reader.processes()?.into(),
            ending: Vec::new(),
            losses: reader.losses()?.into(),
        })
    }

    pub(super) fn ops(&self) -> &[OpInfo] {
        &self.ops
    }

    /// What is dated from `from_ns` on and before `to_ns`.
    pub(super) fn between(&mut self, from_ns: u64, to_ns: u64) -> Read<(Batch, Facts)> {
        let filter = Filter { from_ns: Some(from_ns), to_ns: Some(to_ns), ..Filter::default() };
        let times = [Value::Integer(from_ns as i64), Value::Integer(to_ns as i64)];
        let mut batch = Batch { processes: self.processes(to_ns), ..Batch::default() };
        let mut facts = Facts { blame: self.reader.blame(&filter)?, ..Facts::default() };
        self.calls(&filter, &times, &mut batch)?;
        self.stacks(&mut batch)?;
        self.work(&times, &mut facts)?;
        self.host(&times, to_ns, &mut batch)?;
        Ok((batch, facts))
    }

    /// How many of each probe are in which state, in the last session.
    pub(super) fn probes(&self) -> Read<Vec<(String, ProbeState, u64)>> {
        let sql = "SELECT probe, state, count(*) FROM probes \
                   WHERE session_id IS (SELECT max(session_id) FROM probes) AND probe <> 'governor' GROUP BY 1, 2";
        let states = [ProbeState::Attached, ProbeState::Degraded, ProbeState::Refused, ProbeState::Absent];
        let mut probes = Vec::new();
        self.reader.select_each(sql, &[], |row| {
            let state = states.iter().find(|state| state.name() == text(&row[1]));
            probes.extend(state.map(|state| (text(&row[0]), *state, number(&row[2]))));
        })?;
        Ok(probes)
    }

    /// Those that begin, and those whose end was before: their last windows have been read by then.
    fn processes(&mut self, to_ns: u64) -> Vec<Process> {
        let mut reported = Vec::new();
        self.ending.retain(|process| {
            let ends = process.end_ns.is_some_and(|end_ns| end_ns + 1_000_000_000 < to_ns);
            if ends {
                reported.push(process.clone());
            }
            !ends
        });
        while self.coming.front().is_some_and(|process| process.start_ns < to_ns)
            && let Some(process) = self.coming.pop_front()
        {
            reported.push(Process { end_ns: None, ..process.clone() });
            self.ending.push(process);
        }
        reported
    }

    fn op(&self, name: &str) -> OpId {
        self.by_name.get(name).copied().unwrap_or(OpId::NONE)
    }

    fn calls(&self, filter: &Filter, times: &[Value], batch: &mut Batch) -> Read<()> {
        self.reader.each_call_stats(filter, |stats| {
            batch.windows.push(CallWindow {
                window_start_ns: stats.window_start_ns,
                window_ns: stats.window_ns,
                pid: stats.pid,
                tid: 0,
                op: self.op(&stats.op),
                direction: None,
                count: stats.count,
                errors: stats.errors,
                kept: stats.kept,
                bytes: stats.bytes,
                sum_ns: stats.sum_ns,
                min_ns: stats.min_ns,
                max_ns: stats.max_ns,
                blame: stats.blame,
                hist: stats.hist,
                cost_ns: 0,
                beside_ns: 0,
                slice: 0,
            });
        })?;
        self.reader.each_call(filter, |call| {
            if crate::state::is_slow(&call) {
                batch.calls.push(call);
            }
        })?;
        let sql = "SELECT timestamp_ns, duration_ns, function, pid, tid, kept, ret, bytes, stack_id, oncpu_ns, \
                   rank, nranks, seq FROM nccl_events WHERE timestamp_ns >= ?1 AND timestamp_ns < ?2 \
                   AND kept IN ('slow', 'error')";
        self.reader.select_each(sql, times, |row| batch.nccl_calls.push(self.nccl_call(row)))
    }

    fn nccl_call(&self, row: &[Value]) -> NcclCall {
        let mut call = Call {
            start_ns: number(&row[0]),
            duration_ns: number(&row[1]),
            op: self.op(&text(&row[2])),
            pid: number(&row[3]) as u32,
            tid: number(&row[4]) as u32,
            kept: if text(&row[5]) == "error" { Kept::Error } else { Kept::Slow },
            ret: number(&row[6]) as i32,
            bytes: number(&row[7]),
            stack_id: whole(&row[8]),
            ..Call::default()
        };
        call.blame.oncpu_ns = number(&row[9]);
        NcclCall {
            call,
            communicator: 0,
            comm_id_hash: None,
            rank: whole(&row[10]).map(|rank| rank as i32),
            nranks: whole(&row[11]).map(|nranks| nranks as i32),
            seq: whole(&row[12]).map(|seq| seq as u64),
            count: None,
            datatype: None,
            reduce_op: None,
            peer: None,
            grouped: false,
            stream_slot: 0,
            mark: 0,
        }
    }

    /// The frames of the calls' stacks, each once.
    fn stacks(&self, batch: &mut Batch) -> Read<()> {
        let nccl = batch.nccl_calls.iter().map(|nccl| &nccl.call);
        let wanted: HashSet<i64> = batch.calls.iter().chain(nccl).filter_map(|call| call.stack_id).collect();
        let sql = "SELECT function, file, line, module FROM frames WHERE stack_id = ?1 ORDER BY depth";
        for stack_id in wanted {
            let mut stack = Stack { stack_id, ..Stack::default() };
            self.reader.select_each(sql, &[Value::Integer(stack_id)], |row| {
                stack.frames.push(Frame {
                    function: Some(text(&row[0])).filter(|function| !function.is_empty()),
                    file: Some(text(&row[1])).filter(|file| !file.is_empty()),
                    line: whole(&row[2]).map(|line| line as u32),
                    module: text(&row[3]),
                    ..Frame::default()
                });
            })?;
            batch.stacks.push(stack);
        }
        Ok(())
    }

    fn work(&self, times: &[Value], facts: &mut Facts) -> Read<()> {
        self.each("op, pid, ifnull(bytes, 0)", "nccl_events", "timestamp_ns", times, |row| {
            facts.collectives.push(collective(text(&row[0]), number(&row[1]) as u32, number(&row[2])));
        })?;
        self.each(
            "pid, tid, timestamp_ns, completed_ns, wait_ns",
            "nccl_events",
            "timestamp_ns",
            times,
            |row| {
                if let (Some(completed), Some(wait)) = (whole(&row[3]), whole(&row[4])) {
                    facts.collective_waits.push(CollectiveWait {
                        pid: number(&row[0]) as u32,
                        tid: number(&row[1]) as u32,
                        start_ns: number(&row[2]),
                        completed_ns: completed as u64,
                        wait_ns: wait as u64,
                        waited_in: OpId::NONE,
                    });
                }
            },
        )?;
        let columns = "window_start_ns, window_ns, pid, direction, count, bytes, sum_ns, errors";
        self.each(columns, "copy_stats", "window_start_ns", times, |row| {
            let direction = Direction::ALL.into_iter().find(|direction| direction.name() == text(&row[3]));
            facts.copies.push(CopyWindow {
                window_start_ns: number(&row[0]),
                window_ns: number(&row[1]),
                pid: number(&row[2]) as u32,
                cgroup_id: 0,
                direction: direction.unwrap_or(Direction::Unknown),
                count: number(&row[4]),
                bytes: number(&row[5]),
                sum_ns: number(&row[6]),
                errors: number(&row[7]),
            });
        })?;
        let columns =
            "window_start_ns, window_ns, pid, submitted, launches, launch_ns, busy_lower_ns, busy_upper_ns";
        self.each(columns, "gpu_time", "window_start_ns", times, |row| {
            facts.gpu_times.push(GpuTime {
                window_start_ns: number(&row[0]),
                window_ns: number(&row[1]),
                pid: number(&row[2]) as u32,
                stream: 0,
                stream_tid: 0,
                submitted: number(&row[3]),
                launches: number(&row[4]),
                launch_ns: number(&row[5]),
                busy_lower_ns: number(&row[6]),
                busy_upper_ns: number(&row[7]),
            });
        })?;
        self.each(
            "timestamp_ns, duration_ns, event, pid",
            "coldstart_events",
            "timestamp_ns",
            times,
            |row| {
                facts.cold_starts.push(cold_start(row));
            },
        )?;
        let columns = "timestamp_ns, pid, gpu, kind, live_bytes, peak_bytes, live_count, allocated_bytes, \
                       freed_bytes, failures";
        self.each(columns, "memory_stats", "timestamp_ns", times, |row| facts.memory.extend(memory(row)))
    }

    fn host(&mut self, times: &[Value], to_ns: u64, batch: &mut Batch) -> Read<()> {
        while self.losses.front().is_some_and(|loss| loss.start_ns < to_ns) {
            batch.losses.extend(self.losses.pop_front());
        }
        self.each(
            "window_start_ns, window_ns, pid, calls, cost_ns",
            "watch_costs",
            "window_start_ns",
            times,
            |row| {
                batch.tracing_costs.push(TracingCost {
                    window_start_ns: number(&row[0]),
                    window_ns: number(&row[1]),
                    pid: number(&row[2]) as u32,
                    calls: number(&row[3]),
                    cost_ns: number(&row[4]),
                    worst_thread_pct: 0.0,
                    level: Level::Full,
                });
            },
        )?;
        self.each("pid", "tcp_events", "timestamp_ns", times, |row| {
            batch.tcp_events.push(TcpEvent { pid: number(&row[0]) as u32, ..TcpEvent::default() });
        })?;
        self.each("event, device, counter, delta", "rdma_events", "timestamp_ns", times, |row| {
            batch.rdma_events.push(RdmaEvent {
                event: text(&row[0]),
                device: text(&row[1]),
                counter: text(&row[2]),
                delta: whole(&row[3]).map(|delta| delta as u64),
                ..RdmaEvent::default()
            });
        })?;
        self.each("event, gpu, device, code", "gpu_errors", "timestamp_ns", times, |row| {
            batch.gpu_errors.push(GpuError {
                event: text(&row[0]),
                gpu: whole(&row[1]).map(|gpu| gpu as u32),
                device: text(&row[2]),
                code: whole(&row[3]).unwrap_or(0),
                ..GpuError::default()
            });
        })?;
        self.each(GPU_COLUMNS, "gpu_samples", "timestamp_ns", times, |row| {
            batch.gpu_samples.push(sample(row));
        })
    }

    /// Rows of a table by its time, in its order.
    fn each(
        &self,
        columns: &str,
        table: &str,
        time: &str,
        times: &[Value],
        visit: impl FnMut(&[Value]),
    ) -> Read<()> {
        let sql = format!("SELECT {columns} FROM {table} WHERE {time} >= ?1 AND {time} < ?2 ORDER BY {time}");
        self.reader.select_each(&sql, times, visit)
    }
}

const GPU_COLUMNS: &str = "timestamp_ns, gpu, uuid, mig, name, sm_pct, sm_active_pct, sm_occupancy_pct, \
    tensor_active_pct, dram_active_pct, memory_used_bytes, memory_total_bytes, power_mw, power_limit_mw, \
    temperature_c, sm_clock_mhz, memory_clock_mhz, pcie_rx_bytes_per_s, pcie_tx_bytes_per_s, \
    nvlink_rx_bytes_per_s, nvlink_tx_bytes_per_s, pcie_replays, nvlink_errors, ecc_corrected, ecc_errors, \
    throttle_reasons";

fn sample(row: &[Value]) -> GpuSample {
    let count = |at: usize| whole(&row[at]).map(|n| n.max(0) as u64);
    let small = |at: usize| count(at).map(|n| n as u32);
    GpuSample {
        time_ns: number(&row[0]),
        gpu: number(&row[1]) as u32,
        uuid: text(&row[2]),
        mig: Some(text(&row[3])).filter(|mig| !mig.is_empty()),
        name: text(&row[4]),
        sm_pct: real(&row[5]),
        sm_active_pct: real(&row[6]),
        sm_occupancy_pct: real(&row[7]),
        tensor_active_pct: real(&row[8]),
        dram_active_pct: real(&row[9]),
        memory_used_bytes: count(10),
        memory_total_bytes: count(11),
        power_mw: count(12),
        power_limit_mw: count(13),
        temperature_c: small(14),
        sm_clock_mhz: small(15),
        memory_clock_mhz: small(16),
        pcie_rx_bytes_per_s: count(17),
        pcie_tx_bytes_per_s: count(18),
        nvlink_rx_bytes_per_s: count(19),
        nvlink_tx_bytes_per_s: count(20),
        pcie_replays: count(21),
        nvlink_errors: count(22),
        ecc_corrected: count(23),
        ecc_uncorrected: count(24),
        throttle_reasons: serde_json::from_str(&text(&row[25])).unwrap_or_default(),
        ..GpuSample::default()
    }
}

fn collective(event: String, pid: u32, bytes: u64) -> Collective {
    Collective {
        call: Call { pid, ..Call::default() },
        event,
        comm: 0,
        comm_id_hash: None,
        rank: None,
        nranks: None,
        seq: None,
        count: None,
        bytes: Some(bytes),
        datatype: None,
        reduce_op: None,
        peer: None,
        grouped: false,
    }
}

fn cold_start(row: &[Value]) -> ColdStart {
    ColdStart {
        start_ns: number(&row[0]),
        duration_ns: number(&row[1]),
        event: text(&row[2]),
        op: OpId::NONE,
        pid: number(&row[3]) as u32,
        tid: 0,
        cgroup_id: 0,
        name: String::new(),
        bytes: 0,
        ret: 0,
        stack_id: None,
    }
}

fn memory(row: &[Value]) -> Option<MemoryUse> {
    let kinds = [MemoryKind::Device, MemoryKind::Managed, MemoryKind::Host, MemoryKind::Registered];
    Some(MemoryUse {
        time_ns: number(&row[0]),
        pid: number(&row[1]) as u32,
        gpu: whole(&row[2]).map(|gpu| gpu as u16),
        kind: kinds.into_iter().find(|kind| kind.name() == text(&row[3]))?,
        live_bytes: number(&row[4]),
        peak_bytes: number(&row[5]),
        live_count: number(&row[6]),
        allocated_bytes: number(&row[7]),
        freed_bytes: number(&row[8]),
        failures: number(&row[9]),
    })
}

fn whole(value: &Value) -> Option<i64> {
    match value {
        Value::Integer(number) => Some(*number),
        Value::Real(number) => Some(*number as i64),
        _ => None,
    }
}

/// NULL is zero.
fn number(value: &Value) -> u64 {
    whole(value).unwrap_or(0) as u64
}

fn real(value: &Value) -> Option<f64> {
    match value {
        Value::Integer(number) => Some(*number as f64),
        Value::Real(number) => Some(*number),
        _ => None,
    }
}

/// NULL is empty.
fn text(value: &Value) -> String {
    match value {
        Value::Text(text) => text.clone(),
        _ => String::new(),
    }
}
