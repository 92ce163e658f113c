//! Where the time beyond the usual went, in a line for each operation that lost any.

use super::panel::{Panel, plain};
use super::view::View;
use gpuwhy_cause::{Stall, stalls};
use gpuwhy_model::units::{duration, printable};

const MOST_STALLS: usize = 5;

pub(super) fn panel(view: &View<'_>) -> Option<Panel> {
    let mut panel = Panel::new("where the time beyond the usual went", "blame");
    let stalls = stalls(view.tallies, view.ops);
    // Worth a line: more than a thousandth of the time traced.
    let worth = stalls.iter().filter(|stall| stall.excess_ns * 1000 > view.wall_ns());
    for stall in worth.take(MOST_STALLS) {
        panel.note(plain(sentence(stall, &view.who(stall.pid))));
    }
    panel.if_any()
}

fn sentence(stall: &Stall, who: &str) -> String {
    let causes: Vec<String> = stall
        .causes
        .iter()
        .filter(|cause| cause.share_pct >= 5.0)
        .take(2)
        .map(|cause| {
            let by = cause.by.first().map(|by| format!(" by {} ({})", printable(&by.comm), by.pid));
            format!("{:.0}% {}{}", cause.share_pct, cause.cause.name(), by.unwrap_or_default())
        })
        .collect();
    format!("{} of {who}: {} lost, {}", stall.op, duration(stall.excess_ns), causes.join(", "))
}
