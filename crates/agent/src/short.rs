//! What came of attaching, in as few lines as say it.

use gpuwhy_model::{ProbeState, ProbeStatus};
use std::collections::BTreeMap;

/// Those of one file that went well in one line; what a version of a library does not have is left to the file.
pub(crate) fn in_short(statuses: &[ProbeStatus]) -> Vec<ProbeStatus> {
    let mut short: Vec<ProbeStatus> = Vec::new();
    let mut attached: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    for status in statuses {
        match status.state {
            ProbeState::Attached if !status.file.is_empty() => {
                *attached.entry((&status.probe, &status.file)).or_default() += 1;
            }
            ProbeState::Absent if !status.file.is_empty() => {}
            _ => short.push(status.clone()),
        }
    }
    for ((probe, file), functions) in attached {
        let first = statuses.iter().find(|status| status.probe == probe && status.file == file);
        short.extend(first.map(|status| ProbeStatus {
            target: "*".into(),
            state: ProbeState::Attached,
            reason: format!("{functions} functions"),
            ..status.clone()
        }));
    }
    short
}
