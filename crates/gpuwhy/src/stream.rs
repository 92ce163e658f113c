//! `trace --json`: one object a line.

mod lines;

use crate::failure::Failure;
use gpuwhy_agent::{Agent, Snapshot, Summary, Update};
use gpuwhy_cause::stalls;
use gpuwhy_model::OpInfo;
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
            Update::Attached(statuses) => {
                statuses.iter().map(|status| lines::line("probe", status, &ops)).collect::<Result<_, _>>()?
            }
            Update::Batch(news) => lines::of(&news.0, &news.1, &ops)?,
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

fn snapshot_line(snapshot: &Snapshot, ops: &[OpInfo]) -> Value {
    let rows: Vec<Value> = snapshot
        .tallies
        .by_process()
        .map(|(pid, op, tally)| {
            json!({
                "pid": pid,
                "op": lines::op_name(op, ops),
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
