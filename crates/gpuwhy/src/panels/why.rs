//! What bounds the program, and the worst findings: of the last minute.

use super::panel::{ANSWER, Panel, bad, odd, plain};
use super::view::View;
use crate::explanation::AS_BUILT;
use crate::explanation::first_screen::is_hidden;
use gpuwhy_model::Severity;
use gpuwhy_model::units::{clock, printable};

const MAX_FINDINGS: usize = 3;

pub(super) fn panel(view: &View<'_>) -> Option<Panel> {
    let mut panel = Panel::new("why, over the last minute", ANSWER);
    if let Some(verdict) = view.verdict {
        panel.paragraph(bold("=> "), printable(verdict));
    }
    // The verdict has said the first already, where it is one.
    for finding in view.findings.iter().filter(|finding| !is_hidden(finding)).take(MAX_FINDINGS) {
        let is_as_built = finding.by_design.is_some();
        let name = format!("{:<9}", if is_as_built { AS_BUILT } else { finding.severity.name() });
        let severity = match finding.severity {
            _ if is_as_built => plain(name),
            Severity::Low => plain(name),
            Severity::Medium => odd(name),
            Severity::High | Severity::Critical => bad(name),
        };
        let title = printable(&finding.title);
        let when = match title.contains(" UTC") {
            true => String::new(),
            false => format!("; from {}", clock(finding.window.start_ns)),
        };
        let ended = finding.pid.is_some_and(|pid| view.has_ended(pid));
        let ended = if ended { " (ended)" } else { "" };
        panel.paragraph(severity, format!("{title}{when}{ended}"));
    }
    panel.answer().if_any()
}

fn bold(text: &'static str) -> ratatui::text::Line<'static> {
    use ratatui::style::{Modifier, Style};
    ratatui::text::Line::from(ratatui::text::Span::styled(text, Style::new().add_modifier(Modifier::BOLD)))
}
