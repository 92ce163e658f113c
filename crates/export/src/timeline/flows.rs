//! Arrows from a cause to what it held up: from a launch to the call that waits for it, from whoever had the CPU or
//! woke a thread to that thread's wait, from the last rank at a collective to the others' end of it.

use crate::{ExportError, Source};
use gpuwhy_model::{Call, Family, OpInfo, Role};
use std::collections::HashMap;

#[derive(Debug, Default)]
pub(crate) struct Flows {
    last: u64,
    /// The latest launch on a stream of a process, and of the process at all.
    launches: HashMap<(u32, u64), u64>,
    launched: HashMap<u32, u64>,
    /// By communicator and number: who came last, when, and the arrow from there.
    late: HashMap<(String, i64), Late>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Late {
    pub(crate) pid: u32,
    pub(crate) start_ns: i64,
    pub(crate) flow: u64,
}

impl Flows {
    pub(crate) fn of(source: &Source<'_>) -> Result<Flows, ExportError> {
        let mut flows = Flows::default();
        let (clause, values) = source.filter.clause("timestamp_ns");
        // SQLite takes the other columns from the row that has the maximum.
        let sql = format!(
            "SELECT comm_id_hash, seq, pid, max(timestamp_ns) FROM (SELECT * FROM nccl_events{clause}) \
             WHERE seq IS NOT NULL AND comm_id_hash IS NOT NULL AND op NOT IN ('SEND', 'RECV') \
             GROUP BY comm_id_hash, seq HAVING count(DISTINCT pid) > 1"
        );
        source.reader.stream::<ExportError>(&sql, &values, |record| {
            let (Some(comm), Some(seq)) = (record.text(0), record.integer(1)) else { return Ok(()) };
            flows.last += 1;
            let late = Late {
                pid: record.integer(2).unwrap_or(0) as u32,
                start_ns: record.integer(3).unwrap_or(0),
                flow: flows.last,
            };
            flows.late.insert((comm.into_owned(), seq), late);
            Ok(())
        })?;
        Ok(flows)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    /// The arrow that begins in a call, and the one that ends in it.
    pub(crate) fn call(&mut self, call: &Call, op: Option<&OpInfo>) -> (Option<u64>, Option<u64>) {
        let Some(op) = op else { return (None, None) };
        if op.family == Family::Launch || op.role == Role::GraphLaunch {
            let flow = self.next();
            self.launches.insert((call.pid, call.stream), flow);
            self.launched.insert(call.pid, flow);
            return (Some(flow), None);
        }
        if !op.waits_for_gpu {
            return (None, None);
        }
        // A call without a stream waits for the device.
        let from = match call.stream {
            0 => self.launched.get(&call.pid),
            stream => self.launches.get(&(call.pid, stream)),
        };
        (None, from.copied())
    }

    pub(crate) fn late(&self, comm: &str, seq: i64) -> Option<Late> {
        // Few files have any, and the key must be owned.
        if self.late.is_empty() {
            return None;
        }
        self.late.get(&(comm.to_string(), seq)).copied()
    }
}
