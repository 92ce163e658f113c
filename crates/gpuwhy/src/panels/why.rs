//! What was found in the last minute: the sentence of each finding.

use super::panel::{Panel, bad, odd, plain};
use super::view::View;
use gpuwhy_model::Severity;
use gpuwhy_model::units::printable;

const MOST_FINDINGS: usize = 5;

pub(super) fn panel(view: &View<'_>) -> Option<Panel> {
    let mut panel = Panel::new("findings", "explain").text("");
    for finding in view.findings.iter().take(MOST_FINDINGS) {
        let severity = match finding.severity {
            Severity::Low => plain(finding.severity.name()),
            Severity::Medium => odd(finding.severity.name()),
            Severity::High | Severity::Critical => bad(finding.severity.name()),
        };
        panel.row(vec![severity, plain(printable(&finding.title))]);
    }
    panel.if_any()
}
