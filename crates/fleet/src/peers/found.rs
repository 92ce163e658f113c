//! What was said, as findings to be written down.

use crate::point::{Found, Origin};
use gpuwhy_cohort::{Autopsy, Verdict, VerdictKind};
use serde_json::{Value, json};
use std::sync::Arc;

/// With what tells it from all others.
pub(super) fn of_verdict(verdict: &Verdict, now_ns: i64) -> (String, Found) {
    let class = match verdict.kind {
        VerdictKind::Straggler => "rank.straggler",
        VerdictKind::Regression => verdict.cause.as_ref().map_or("unknown", |cause| cause.class.name()),
    };
    let key = format!("{:?} {} {} {:?}", verdict.kind, verdict.cluster, verdict.job, verdict.rank);
    let origin = origin(&verdict.cluster, &verdict.job, verdict.node.as_deref(), verdict.rank);
    (key, found(origin, class, &verdict.message, &json!(verdict), now_ns))
}

pub(super) fn of_autopsy(hang: &Autopsy, now_ns: i64) -> (String, Found) {
    let key = format!("hang {} {} {} {}", hang.cluster, hang.job, hang.comm, hang.seq);
    let culprit = hang.culprits.first();
    let node = culprit.and_then(|culprit| culprit.node.as_deref());
    let origin = origin(&hang.cluster, &hang.job, node, culprit.map(|culprit| culprit.rank));
    (key, found(origin, "rank.hang", &hang.message, &json!(hang), now_ns))
}

fn origin(cluster: &str, job: &str, node: Option<&str>, rank: Option<u32>) -> Origin {
    Origin {
        cluster: cluster.into(),
        node: node.unwrap_or("").into(),
        job: Some(job.into()),
        rank: rank.and_then(|rank| i32::try_from(rank).ok()),
        nranks: None,
    }
}

fn found(origin: Origin, class: &str, title: &str, whole: &Value, now_ns: i64) -> Found {
    Found {
        timestamp_ns: now_ns,
        origin,
        source: "fleet",
        class: Some(class.into()),
        severity: Some("high".into()),
        title: title.into(),
        pid: None,
        finding: Some(Arc::from(whole.to_string())),
    }
}
