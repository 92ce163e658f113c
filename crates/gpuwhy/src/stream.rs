//! `trace --json`: one object a line.

use crate::failure::Failure;
use gpuwhy_agent::{Agent, Snapshot, Summary, Update};
use gpuwhy_cause::stalls;
use gpuwhy_model::{Batch, Call, OpId, OpInfo};
use serde_json::{Value, json};
use std::io::Write;

pub(crate) fn run(agent: &Agent) -> Result<(), Failure> {
    let mut ops: Vec<OpInfo> = Vec::new();
    for update in agent.updates() {
        let lines = match update {
            Update::Started { start_ns, ops: known, flavour, command_pid } => {
                ops = known;
                vec![
                    json!({"type": "started", "start_ns": start_ns, "attach": flavour, "command_pid": command_pid}),
                ]
            }
            Update::Attached(statuses) => statuses
                .iter()
                .map(|status| tagged("probe", serde_json::to_value(status)?))
                .collect::<Result<_, _>>()?,
            Update::Batch(batch) => batch_lines(&batch, &ops)?,
            Update::Snapshot(snapshot) => vec![snapshot_line(&snapshot, &ops)],
            Update::Ended(result) => {
                let summary = (*result)?;
                print(&[summary_line(&summary)])?;
                return Ok(());
            }
        };
        if let Err(failure) = print(&lines) {
            // Nobody reads any more: end the trace, keep the file.
            agent.stop();
            if !matches!(failure, Failure::Silent) {
                return Err(failure);
            }
        }
    }
    Ok(())
}

fn print(lines: &[Value]) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    for line in lines {
        serde_json::to_writer(&mut out, line).map_err(std::io::Error::from)?;
        out.write_all(b"\n")?;
    }
    out.flush()?;
    Ok(())
}

fn tagged(kind: &str, value: Value) -> Result<Value, serde_json::Error> {
    match value {
        Value::Object(mut fields) => {
            fields.insert("type".into(), kind.into());
            Ok(Value::Object(fields))
        }
        other => Ok(json!({"type": kind, "value": other})),
    }
}

fn op_name(id: OpId, ops: &[OpInfo]) -> &str {
    ops.iter().find(|op| op.id == id).map_or("", |op| &op.name)
}

fn batch_lines(batch: &Batch, ops: &[OpInfo]) -> Result<Vec<Value>, serde_json::Error> {
    let calls = batch.calls.iter().map(|call| Ok(call_line(call, ops)));
    let processes = batch.processes.iter().map(|process| tagged("process", serde_json::to_value(process)?));
    let losses = batch.losses.iter().map(|loss| tagged("loss", serde_json::to_value(loss)?));
    calls.chain(processes).chain(losses).collect()
}

/// The columns of `cuda_events`.
fn call_line(call: &Call, ops: &[OpInfo]) -> Value {
    json!({
        "type": "call",
        "timestamp_ns": call.start_ns,
        "duration_ns": call.duration_ns,
        "op": op_name(call.op, ops),
        "pid": call.pid,
        "tid": call.tid,
        "cgroup_id": call.cgroup_id,
        "stream": format!("{:#x}", call.stream),
        "bytes": call.bytes,
        "ret": call.ret,
        "kept": call.kept.name(),
        "via": call.via.map(gpuwhy_model::Via::name),
        "sample_weight": call.sample_weight,
        "stack_id": call.stack_id,
        "oncpu_ns": call.blame.oncpu_ns,
        "runq_ns": call.blame.runq_ns,
        "blocked_ns": call.blame.blocked_total_ns(),
    })
}

fn snapshot_line(snapshot: &Snapshot, ops: &[OpInfo]) -> Value {
    let rows: Vec<Value> = snapshot
        .tallies
        .by_process()
        .map(|(pid, op, tally)| {
            json!({
                "pid": pid,
                "op": op_name(op, ops),
                "count": tally.count,
                "errors": tally.errors,
                "p50_us": tally.quantile_ns(0.5) as f64 / 1e3,
                "p95_us": tally.quantile_ns(0.95) as f64 / 1e3,
                "p99_us": tally.quantile_ns(0.99) as f64 / 1e3,
                "max_us": tally.max_ns as f64 / 1e3,
                "oncpu_ns": tally.blame.oncpu_ns,
                "runq_ns": tally.blame.runq_ns,
                "blocked_ns": tally.blame.blocked_total_ns(),
            })
        })
        .collect();
    json!({
        "type": "sums",
        "time_ns": snapshot.now_ns,
        "operations": rows,
        "coverage": snapshot.coverage,
        "host": {"cpu": snapshot.load.cpu, "runnable": snapshot.load.runnable},
        "gpuwhy": {"cpu": snapshot.own.cpu, "rss_bytes": snapshot.own.rss_bytes},
    })
}

fn summary_line(summary: &Summary) -> Value {
    json!({
        "type": "summary",
        "file": summary.file,
        "start_ns": summary.last.start_ns,
        "end_ns": summary.last.now_ns,
        "calls": summary.last.tallies.calls(),
        "kept": summary.last.tallies.kept(),
        "coverage": summary.last.coverage,
        "stalls": stalls(&summary.last.tallies, &summary.ops),
        "command_status": summary.command_status.and_then(|status| status.code()),
    })
}
