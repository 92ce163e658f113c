//! Findings as log records.

use super::Request;
use super::attributes::{Resource, any, list, real, scope, text, whole};
use gpuwhy_model::{Finding, Severity};
use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::logs::v1::{LogRecord, ResourceLogs, ScopeLogs, SeverityNumber};

/// Findings as they are told at `now_ns`; nothing where there are none.
pub fn logs<'a>(
    findings: impl IntoIterator<Item = &'a Finding>,
    now_ns: u64,
    resource: &Resource,
) -> Option<Request> {
    let log_records: Vec<LogRecord> = findings.into_iter().map(|finding| record(finding, now_ns)).collect();
    let scope = ScopeLogs { scope: scope(), log_records, ..ScopeLogs::default() };
    (!scope.log_records.is_empty()).then(|| {
        Request::Logs(ExportLogsServiceRequest {
            resource_logs: vec![ResourceLogs {
                resource: resource.get(),
                scope_logs: vec![scope],
                ..ResourceLogs::default()
            }],
        })
    })
}

fn record(finding: &Finding, now_ns: u64) -> LogRecord {
    LogRecord {
        time_unix_nano: finding.window.end_ns,
        observed_time_unix_nano: now_ns,
        severity_number: severity_number(finding.severity) as i32,
        severity_text: finding.severity.name().into(),
        body: Some(any(Value::StringValue(finding.title.clone()))),
        attributes: attributes(finding),
        event_name: "gpuwhy.finding".into(),
        ..LogRecord::default()
    }
}

fn severity_number(severity: Severity) -> SeverityNumber {
    match severity {
        Severity::Critical => SeverityNumber::Error,
        Severity::High => SeverityNumber::Warn2,
        Severity::Medium => SeverityNumber::Warn,
        Severity::Low => SeverityNumber::Info,
    }
}

fn attributes(finding: &Finding) -> Vec<KeyValue> {
    let mut pairs = vec![
        text("gpuwhy.finding.id", &finding.id),
        text("gpuwhy.rule", &finding.rule),
        whole("gpuwhy.calls", finding.impact.calls as i64),
        whole("gpuwhy.slow_calls", finding.impact.slow_calls as i64),
        real("gpuwhy.excess", finding.impact.excess_ms / 1e3),
        real("gpuwhy.wall_share", finding.impact.wall_pct / 100.0),
        real("gpuwhy.explained_share", finding.explained_pct / 100.0),
        whole("gpuwhy.window.start_ns", finding.window.start_ns as i64),
        whole("gpuwhy.window.end_ns", finding.window.end_ns as i64),
        list("gpuwhy.fixes", &finding.fixes),
        text("gpuwhy.sql", &finding.sql),
    ];
    pairs.extend(finding.causes.first().map(|cause| text("gpuwhy.cause", cause.class.name())));
    for cause in &finding.causes {
        pairs.push(real(&format!("gpuwhy.cause.{}", cause.class.name()), cause.share_pct / 100.0));
        let by: Vec<String> = cause.by.iter().map(|culprit| culprit.comm.clone()).collect();
        if !by.is_empty() {
            pairs.push(list(&format!("gpuwhy.by.{}", cause.class.name()), &by));
        }
    }
    pairs.extend(finding.by_design.iter().map(|how| text("gpuwhy.by_design", how)));
    pairs.extend(finding.op.iter().map(|op| text("op", op)));
    pairs.extend(finding.pid.map(|pid| whole("process.pid", pid.into())));
    pairs.extend(finding.process.iter().map(|process| text("process", process)));
    pairs.extend(finding.rank.map(|rank| whole("rank", rank.into())));
    pairs.extend(finding.cgroup.iter().map(|cgroup| text("cgroup", cgroup)));
    if !finding.place.python.is_empty() {
        pairs.push(list("gpuwhy.where.python", &finding.place.python));
    }
    if !finding.place.native.is_empty() {
        pairs.push(list("gpuwhy.where.native", &finding.place.native));
    }
    pairs.extend(finding.place.kernel.iter().map(|kernel| text("gpuwhy.where.kernel", kernel)));
    pairs
}
