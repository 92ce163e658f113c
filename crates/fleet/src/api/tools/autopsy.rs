//! `fleet.cluster.hang_autopsy`.

use super::super::Work;
use super::super::asking::of_store;
use super::super::request::clusters;
use super::Coverage;
use crate::store::{Filter, Reach};
use gpuwhy_cohort::Autopsy;
use gpuwhy_http::AskError;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Findings of each culprit.
const FINDINGS: usize = 5;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct AutopsyRequest {
    /// Of this cluster; all that the token may see otherwise.
    cluster_id: Option<String>,
    /// Of this job.
    job_id: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Hang {
    #[serde(flatten)]
    autopsy: Autopsy,
    /// The last findings of the ranks that the others wait for.
    last_findings: Vec<Map<String, Value>>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct AutopsyAnswer {
    hangs: Vec<Hang>,
    coverage: Coverage,
}

pub(super) fn autopsy(work: &Work<'_>, request: &AutopsyRequest) -> Result<AutopsyAnswer, AskError> {
    let clusters = clusters(work.grant, request.cluster_id.as_deref());
    let found = work.peers.autopsies(clusters.as_deref(), request.job_id.as_deref());
    let mut hangs = Vec::new();
    for autopsy in found {
        let mut last_findings = Vec::new();
        for culprit in autopsy.culprits.iter().take(4) {
            let filter = Filter {
                clusters: Some(vec![autopsy.cluster.clone()]),
                node: culprit.node.clone(),
                rank: i32::try_from(culprit.rank).ok(),
                ..Filter::default()
            };
            let reach = Reach { rows: FINDINGS, ..Reach::default() };
            let rows = work.store.findings(&filter, reach, work.stop).map_err(|error| of_store(&error))?;
            last_findings.extend(rows.objects());
        }
        hangs.push(Hang { autopsy, last_findings });
    }
    let mut notes: Vec<String> = match hangs.is_empty() {
        true => vec!["no collective of these clusters hangs now".into()],
        false => Vec::new(),
    };
    if let Some(after) = work.peers.patience(clusters.as_deref()) {
        notes.push(format!(
            "pushes were turned away lately, so the end of a collective may still come: hangs are told after {} s",
            after.as_secs()
        ));
    }
    Ok(AutopsyAnswer { hangs, coverage: Coverage { notes, ..Coverage::default() } })
}
