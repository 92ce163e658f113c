//! What came in, as lines: the columns of the tables, with names for operations and `0x` for what is no number.

use gpuwhy_model::{Batch, Call, Collective, Facts, Kept, OpId, OpInfo};
use serde::Serialize;
use serde_json::{Map, Value, json};

/// Handles and hashes do not fit a JSON number.
const HEX: &[&str] = &["stream", "handle", "graph", "exec", "comm_id_hash"];
/// Fields that name an operation by its number.
const OPERATIONS: &[&str] = &["op", "waited_in"];

type Lines = Result<Vec<Value>, serde_json::Error>;

pub(super) fn of(batch: &Batch, facts: &Facts, ops: &[OpInfo]) -> Lines {
    let reported = batch.calls.iter().filter(|call| call.kept != Kept::State);
    let calls = reported.map(|call| Value::Object(call_fields("call", call, ops)));
    let collectives = facts.collectives.iter().map(|collective| collective_line(collective, ops));
    let mut lines: Vec<Value> = calls.chain(collectives).collect();
    lines.extend(each("process", &batch.processes, ops)?);
    lines.extend(each("loss", &batch.losses, ops)?);
    lines.extend(each("gpu", &batch.gpu_samples, ops)?);
    lines.extend(each("gpu_error", &batch.gpu_errors, ops)?);
    lines.extend(each("annotation", &batch.annotations, ops)?);
    lines.extend(each("server", &batch.server_samples, ops)?);
    lines.extend(each("rdma", &batch.rdma_events, ops)?);
    lines.extend(each("collective_done", &facts.collective_waits, ops)?);
    lines.extend(each("in_flight", &facts.in_flight, ops)?);
    lines.extend(each("memory", &facts.memory, ops)?);
    lines.extend(each("memory_failure", &facts.memory_failures, ops)?);
    lines.extend(each("graph", &facts.graphs, ops)?);
    lines.extend(each("kernel", &facts.kernels, ops)?);
    lines.extend(each("coldstart", &facts.cold_starts, ops)?);
    lines.extend(each("gpu_time", &facts.gpu_times, ops)?);
    lines.extend(each("copy", &facts.copies, ops)?);
    Ok(lines)
}

fn each<T: Serialize>(kind: &str, rows: &[T], ops: &[OpInfo]) -> Lines {
    rows.iter().map(|row| line(kind, row, ops)).collect()
}

/// A row as a line.
pub(super) fn line(kind: &str, row: &impl Serialize, ops: &[OpInfo]) -> Result<Value, serde_json::Error> {
    let mut line = Map::from_iter([("type".to_string(), kind.into())]);
    if let Value::Object(fields) = serde_json::to_value(row)? {
        for (field, value) in fields {
            let value = match value.as_u64() {
                Some(handle) if HEX.contains(&field.as_str()) => hex(handle),
                Some(number) if OPERATIONS.contains(&field.as_str()) => {
                    op_name(OpId(number as u16), ops).into()
                }
                _ => value,
            };
            line.insert(column(kind, &field).into(), value);
        }
    }
    Ok(Value::Object(line))
}

/// What the kind's table calls a field.
fn column<'a>(kind: &str, field: &'a str) -> &'a str {
    match (kind, field) {
        (_, "time_ns") | ("coldstart" | "collective_done", "start_ns") => "timestamp_ns",
        ("gpu", "ecc_uncorrected") => "ecc_errors",
        _ => field,
    }
}

fn hex(number: u64) -> Value {
    format!("{number:#x}").into()
}

pub(super) fn op_name(id: OpId, ops: &[OpInfo]) -> &str {
    ops.iter().find(|op| op.id == id).map_or("", |op| &op.name)
}

/// The columns of `cuda_events`.
fn call_fields(kind: &str, call: &Call, ops: &[OpInfo]) -> Map<String, Value> {
    let fields = json!({
        "type": kind,
        "timestamp_ns": call.start_ns,
        "duration_ns": call.duration_ns,
        "op": op_name(call.op, ops),
        "pid": call.pid,
        "tid": call.tid,
        "cgroup_id": call.cgroup_id,
        "stream": hex(call.stream),
        "handle": hex(call.handle),
        "bytes": call.bytes,
        "direction": call.direction.map(gpuwhy_model::Direction::name),
        "gpu": call.device,
        "ret": call.ret,
        "kept": call.kept.name(),
        "via": call.via.map(gpuwhy_model::Via::name),
        "first_launch": u8::from(call.first),
        "sample_weight": call.sample_weight,
        "stack_id": call.stack_id,
        "oncpu_ns": call.blame.oncpu_ns,
        "runq_ns": call.blame.runq_ns,
        "blocked_ns": call.blame.blocked_total_ns(),
    });
    match fields {
        Value::Object(fields) => fields,
        _ => Map::new(),
    }
}

/// The columns of `nccl_events`.
fn collective_line(collective: &Collective, ops: &[OpInfo]) -> Value {
    let mut fields = call_fields("collective", &collective.call, ops);
    for call_only in ["handle", "direction", "via", "first_launch"] {
        fields.remove(call_only);
    }
    let columns = json!({
        "op": collective.event,
        "function": op_name(collective.call.op, ops),
        "rank": collective.rank,
        "nranks": collective.nranks,
        "comm_id_hash": collective.comm_id_hash.map(hex),
        "comm": hex(collective.comm),
        "seq": collective.seq,
        "count": collective.count,
        "bytes": collective.bytes,
        "datatype": collective.datatype,
        "reduce_op": collective.reduce_op,
        "peer": collective.peer,
        "grouped": u8::from(collective.grouped),
    });
    fields.extend(columns.as_object().cloned().unwrap_or_default());
    Value::Object(fields)
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpuwhy_model::{CallInFlight, ColdStart, Family, GpuSample, Layer, Role};

    fn ops() -> Vec<OpInfo> {
        vec![OpInfo {
            id: OpId(4),
            name: "ncclAllReduce".into(),
            layer: Layer::Nccl,
            family: Family::Collective,
            waits_for_gpu: false,
            role: Role::None,
        }]
    }

    #[test]
    fn rows_have_the_columns_of_their_tables() {
        let call = CallInFlight {
            start_ns: 5,
            pid: 1,
            tid: 2,
            op: OpId(4),
            stream: 0x7f00,
            handle: 0,
            comm_id_hash: Some(u64::MAX),
            rank: None,
            nranks: None,
            seq: Some(9),
            seen_ns: 6,
            ended_ns: None,
            stack_id: Some(-5),
            line: Some("train.py:142 forward".into()),
        };
        let line = line("in_flight", &call, &ops()).unwrap();
        assert_eq!(line["type"], "in_flight");
        assert_eq!((&line["op"], &line["stream"]), (&"ncclAllReduce".into(), &"0x7f00".into()));
        assert_eq!(line["comm_id_hash"], "0xffffffffffffffff");
        assert_eq!((&line["start_ns"], &line["rank"]), (&5.into(), &Value::Null));
        assert_eq!((&line["stack_id"], &line["line"]), (&(-5).into(), &"train.py:142 forward".into()));
    }

    #[test]
    fn events_have_a_timestamp_and_no_number_for_an_operation() {
        let cold = ColdStart {
            start_ns: 7,
            duration_ns: 1,
            event: "context".into(),
            op: OpId(4),
            pid: 1,
            tid: 1,
            cgroup_id: 0,
            name: String::new(),
            bytes: 0,
            ret: 0,
            stack_id: None,
        };
        let sample = GpuSample { time_ns: 8, ecc_uncorrected: Some(2), ..GpuSample::default() };
        let batch = Batch { gpu_samples: vec![sample], ..Batch::default() };
        let facts = Facts { cold_starts: vec![cold], ..Facts::default() };
        let lines = of(&batch, &facts, &ops()).unwrap();
        assert_eq!((&lines[0]["timestamp_ns"], &lines[0]["ecc_errors"]), (&8.into(), &2.into()));
        assert_eq!((&lines[1]["timestamp_ns"], &lines[1]["op"]), (&7.into(), &"ncclAllReduce".into()));
    }
}
