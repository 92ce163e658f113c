//! The model's values as the file keeps them: calls, sums, blame, processes.

use super::{Answer, Limits, Reader, Value};
use crate::schema::calls::{CALLS, KEPT};
use crate::schema::event_arms;
use crate::{CallStats, StoreError};
use gpuwhy_model::{
    Blame, BlameRow, Call, Cause, Direction, Family, Kept, Launch, Layer, Loss, OpId, OpInfo, Role, Via,
};
use rusqlite::{Row, params_from_iter};
use serde::de::value::StrDeserializer;
use serde::de::{DeserializeOwned, IntoDeserializer};
use std::collections::HashMap;

/// Which rows are wanted; what is None does not matter.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Filter {
    pub op: Option<String>,
    pub pid: Option<u32>,
    /// From this time on, unix time.
    pub from_ns: Option<u64>,
    /// Before this time.
    pub to_ns: Option<u64>,
}

impl Filter {
    /// As a WHERE clause with numbered place holders, empty where everything is wanted, and their values.
    pub fn clause(&self, time_column: &str) -> (String, Vec<Value>) {
        let parts = [
            ("op =", self.op.clone().map(Value::Text)),
            ("pid =", self.pid.map(|pid| Value::Integer(pid.into()))),
            (&format!("{time_column} >="), self.from_ns.map(|ns| Value::Integer(ns as i64))),
            (&format!("{time_column} <"), self.to_ns.map(|ns| Value::Integer(ns as i64))),
        ];
        let mut clause = String::new();
        let mut values = Vec::new();
        for (condition, value) in parts {
            let Some(value) = value else { continue };
            values.push(value);
            clause += if values.len() == 1 { " WHERE " } else { " AND " };
            clause += &format!("{condition} ?{}", values.len());
        }
        (clause, values)
    }
}

impl Reader {
    /// The operations of the file, under the file's numbers, which are also those of [`Reader::calls`]; so it is with
    /// the numbers of libraries.
    pub fn ops(&self) -> Result<Vec<OpInfo>, StoreError> {
        self.rows("SELECT op_id, op, layer, family, waits_for_gpu, role FROM ops ORDER BY op_id", [], |row| {
            Ok(OpInfo {
                id: OpId(row.get(0)?),
                name: row.get(1)?,
                layer: named(row, 2)?.unwrap_or(Layer::Cuda),
                family: named(row, 3)?.unwrap_or(Family::Other),
                waits_for_gpu: row.get(4)?,
                role: named(row, 5)?.unwrap_or(Role::None),
            })
        })
    }

    /// Kept calls in order of time.
    pub fn calls(&self, filter: &Filter) -> Result<Vec<Call>, StoreError> {
        let mut calls = Vec::new();
        self.each_call(filter, |call| calls.push(call))?;
        calls.sort_by_key(|call| call.start_ns);
        Ok(calls)
    }

    /// Kept calls one at a time, as they lie in the file: almost in order of time.
    pub fn each_call(&self, filter: &Filter, visit: impl FnMut(Call)) -> Result<(), StoreError> {
        let (clause, values) = filter.clause("timestamp_ns");
        let clause = clause.replace("op = ?1", "op_id = (SELECT op_id FROM ops WHERE op = ?1)");
        self.each(&format!("SELECT * FROM calls{clause}"), params_from_iter(values), call, visit)
    }

    /// Events of all layers as the `events` view has them, in order of time; the newest where there are too many.
    pub fn events(&self, filter: &Filter, limits: &Limits) -> Result<Answer, StoreError> {
        let (clause, values) = filter.clause("timestamp_ns");
        // One more than wanted tells whether there are more.
        let newest =
            format!("ORDER BY timestamp_ns DESC LIMIT {}", limits.rows.saturating_add(1).min(1 << 40));
        // Without a call of that name there is no need to look through all calls. Collectives are not among them.
        let calls = match &filter.op {
            Some(name) => self.ops()?.iter().any(|op| op.name == *name && op.layer != Layer::Nccl),
            None => true,
        };
        let arms: Vec<String> = event_arms(self.clock())
            .into_iter()
            .skip(usize::from(!calls))
            .map(|arm| match arm.table {
                // Collectives go by two names, and people know both.
                "nccl_events" if filter.op.as_ref().is_some_and(|op| op.starts_with("nccl")) => {
                    (format!("{} WHERE t.function = ?1", arm.sql), clause.replace("op = ?1", "true"))
                }
                _ => (arm.sql, clause.clone()),
            })
            .map(|(arm, clause)| format!("SELECT * FROM (SELECT * FROM ({arm}){clause} {newest})"))
            .collect();
        let mut answer = self.select(&format!("{} {newest}", arms.join(" UNION ALL ")), &values, limits)?;
        answer.rows.reverse();
        Ok(answer)
    }

    /// The exact sums over all calls, window by window.
    pub fn call_stats(&self, filter: &Filter) -> Result<Vec<CallStats>, StoreError> {
        let mut stats = Vec::new();
        self.each_call_stats(filter, |window| stats.push(window))?;
        Ok(stats)
    }

    /// The same, one at a time.
    pub fn each_call_stats(&self, filter: &Filter, visit: impl FnMut(CallStats)) -> Result<(), StoreError> {
        let (clause, values) = filter.clause("window_start_ns");
        let sql = format!("SELECT * FROM call_stats{clause} ORDER BY window_start_ns, pid, op");
        self.each(&sql, params_from_iter(values), CallStats::from_row, visit)
    }

    pub fn blame(&self, filter: &Filter) -> Result<Vec<BlameRow>, StoreError> {
        let numbers: HashMap<String, OpId> = self.ops()?.into_iter().map(|op| (op.name, op.id)).collect();
        let (clause, values) = filter.clause("window_start_ns");
        let sql = format!(
            "SELECT window_start_ns, pid, tid, op, cause, by_pid, by_tid, by_comm, ns, count, by_cgroup_id FROM blame{clause} \
             ORDER BY window_start_ns, pid, tid, op, cause, by_pid, by_tid"
        );
        self.rows(&sql, params_from_iter(values), |row| {
            let op: Option<String> = row.get(3)?;
            Ok(BlameRow {
                window_start_ns: number(row, 0)?,
                pid: row.get(1)?,
                tid: row.get(2)?,
                op: op.and_then(|op| numbers.get(&op).copied()).unwrap_or(OpId::NONE),
                cause: named(row, 4)?.unwrap_or(Cause::Unknown),
                by_pid: number(row, 5)? as u32,
                by_tid: number(row, 6)? as u32,
                by_comm: text(row, 7)?,
                ns: number(row, 8)?,
                count: number(row, 9)?,
                by_cgroup_id: bits(row, 10)?,
            })
        })
    }

    pub fn losses(&self) -> Result<Vec<Loss>, StoreError> {
        self.rows(
            "SELECT start_ns, end_ns, probe, cpu, reason, count FROM loss ORDER BY start_ns",
            [],
            |row| {
                Ok(Loss {
                    start_ns: number(row, 0)?,
                    end_ns: number(row, 1)?,
                    probe: text(row, 2)?,
                    cpu: row.get::<_, Option<i32>>(3)?.unwrap_or(-1),
                    reason: text(row, 4)?,
                    count: number(row, 5)?,
                })
            },
        )
    }
}

/// Times, counts and sizes are not below zero, but a damaged file says anything: that is zero then.
pub(super) fn unsigned(number: i64) -> u64 {
    number.max(0) as u64
}

/// NULL is none.
pub(super) fn maybe(row: &Row<'_>, at: usize) -> rusqlite::Result<Option<u64>> {
    Ok(row.get::<_, Option<i64>>(at)?.map(unsigned))
}

/// NULL is zero.
pub(super) fn number(row: &Row<'_>, at: usize) -> rusqlite::Result<u64> {
    Ok(maybe(row, at)?.unwrap_or(0))
}

/// Handles, addresses and ids have all 64 bits: the upper half of them is below zero in the file.
pub(super) fn bits(row: &Row<'_>, at: usize) -> rusqlite::Result<u64> {
    Ok(row.get::<_, Option<i64>>(at)?.unwrap_or(0).cast_unsigned())
}

/// NULL is empty.
pub(super) fn text(row: &Row<'_>, at: usize) -> rusqlite::Result<String> {
    Ok(row.get::<_, Option<String>>(at)?.unwrap_or_default())
}

/// A value by the name under which the model knows it; None for NULL, and for a name it does not know.
fn named<T: DeserializeOwned>(row: &Row<'_>, at: usize) -> rusqlite::Result<Option<T>> {
    let Some(name) = row.get_ref(at)?.as_str_or_null()? else { return Ok(None) };
    let name: StrDeserializer<'_, serde::de::value::Error> = name.into_deserializer();
    Ok(T::deserialize(name).ok())
}

/// A row of `calls`, all columns in their order.
pub(super) fn call(row: &Row<'_>) -> rusqlite::Result<Call> {
    macro_rules! get {
        ($column:literal) => {
            number(row, const { CALLS.place($column) })?
        };
    }
    macro_rules! bits {
        ($column:literal) => {
            bits(row, const { CALLS.place($column) })?
        };
    }
    let launch = match row.get::<_, Option<i64>>(const { CALLS.place("grid_x") })? {
        None => None,
        Some(_) => Some(Launch {
            grid: [get!("grid_x") as u32, get!("grid_y") as u32, get!("grid_z") as u32],
            block: [get!("block_x") as u32, get!("block_y") as u32, get!("block_z") as u32],
            shared_bytes: get!("shared_bytes") as u32,
        }),
    };
    let mut blame = Blame { oncpu_ns: get!("oncpu_ns"), runq_ns: get!("runq_ns"), ..Blame::default() };
    for (ns, place) in blame.blocked_ns.iter_mut().zip(const { CALLS.reasons() }) {
        *ns = number(row, place)?;
    }
    let direction = (get!("direction") as usize).checked_sub(1).and_then(|place| Direction::ALL.get(place));
    let kept = (get!("kept") as usize).checked_sub(1).and_then(|place| KEPT.get(place));
    Ok(Call {
        start_ns: get!("timestamp_ns"),
        duration_ns: get!("duration_ns"),
        op: OpId(get!("op_id") as u16),
        pid: get!("pid") as u32,
        tid: get!("tid") as u32,
        cgroup_id: bits!("cgroup_id"),
        kept: kept.copied().unwrap_or(Kept::All),
        sample_weight: get!("sample_weight") as u32,
        ret: bits!("ret") as i64 as i32,
        bytes: get!("bytes"),
        stream: bits!("stream"),
        handle: bits!("handle"),
        aux: bits!("aux"),
        name: None,
        direction: direction.copied(),
        capture: 0,
        device: row.get(const { CALLS.place("device") })?,
        library: get!("library_id") as u16,
        first: get!("first") != 0,
        caller: bits!("caller"),
        via: match get!("via") {
            1 => Some(Via::Runtime),
            2 => Some(Via::Direct),
            _ => None,
        },
        launch,
        stack_id: row.get(const { CALLS.place("stack_id") })?,
        stack_key: 0,
        blame,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use rusqlite::Connection;

    #[test]
    fn counts_below_zero_are_zero_and_handles_keep_their_bits() {
        let db = Connection::open_in_memory().unwrap();
        let read = |row: &Row<'_>| {
            Ok((
                number(row, 0)?,
                number(row, 1)?,
                maybe(row, 0)?,
                maybe(row, 1)?,
                bits(row, 0)?,
                number(row, 2)?,
            ))
        };
        let found = db.query_row("SELECT -5, NULL, 7", [], read).unwrap();
        assert_eq!(found, (0, 0, Some(0), None, u64::MAX - 4, 7));
    }
}
