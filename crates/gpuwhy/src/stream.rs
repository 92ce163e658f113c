//! `trace --json`: one object a line.

mod lines;

use crate::failure::Failure;
use crate::findings::Explainer;
use crate::log::log;
use crate::telemetry::Telemetry;
use gpuwhy_agent::{Agent, Snapshot, Summary, Update};
use gpuwhy_model::{Finding, OpInfo, Severity};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::Write;

/// `is_kept`: the file stays when it is over.
pub(crate) fn run(
    agent: &Agent,
    explainer: &Explainer,
    is_kept: bool,
    mut telemetry: Telemetry,
) -> Result<(), Failure> {
    let mut ops: Vec<OpInfo> = Vec::new();
    let mut reported: BTreeMap<String, Severity> = BTreeMap::new();
    for update in agent.updates().iter() {
        telemetry.take(&update);
        for news in telemetry.news() {
            log!("{news}");
        }
        let mut lines = match update {
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
            Update::Skipped(count) => vec![json!({"type": "skipped", "batches": count})],
            Update::Snapshot(snapshot) => vec![snapshot_line(&snapshot, &ops)],
            Update::Ended(result) => {
                let summary = (*result)?;
                print(&[summary_line(&summary, explainer, is_kept, telemetry)?])?;
                return Failure::of_command(summary.command_status);
            }
        };
        let newest = explainer.newest();
        if let Some(newest) = &newest {
            telemetry.take_findings(&newest.findings);
        }
        let newest = newest.map(|explained| explained.findings).unwrap_or_default();
        for finding in newest.iter().filter(|finding| is_news(finding, &mut reported)) {
            lines.push(lines::line("finding", finding, &ops)?);
        }
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

/// Told when it is found, and again when it gets worse.
fn is_news(finding: &Finding, reported: &mut BTreeMap<String, Severity>) -> bool {
    let worse = reported.get(&finding.id).is_none_or(|known| finding.severity < *known);
    if worse {
        reported.insert(finding.id.clone(), finding.severity);
    }
    worse
}

fn summary_line(
    summary: &Summary,
    explainer: &Explainer,
    is_kept: bool,
    mut telemetry: Telemetry,
) -> Result<Value, Failure> {
    let explained = explainer.conclude(summary.last.start_ns);
    let findings = explained.map(|explained| explained.findings).unwrap_or_default();
    telemetry.take_findings(&findings);
    let deliveries = telemetry.finish();
    let mut line = json!({
        "type": "summary",
        "file": is_kept.then_some(&summary.file),
        "start_ns": summary.last.start_ns,
        "end_ns": summary.last.now_ns,
        "calls": summary.last.tallies.calls(),
        "kept": summary.last.tallies.kept(),
        "coverage": summary.last.coverage,
        "findings": serde_json::to_value(findings)?,
        "command_status": summary.command_status.and_then(|status| status.code()),
    });
    if let Some(fields) = line.as_object_mut() {
        fields.extend(deliveries.otlp.map(|delivered| ("otlp".into(), delivered.json())));
        fields.extend(deliveries.fleet.map(|delivered| ("fleet".into(), delivered.json())));
    }
    Ok(line)
}
