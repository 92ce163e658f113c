//! Where the time beyond the usual went, in a line for each operation that lost any.

use super::panel::{Panel, plain};
use super::view::View;
use gpuwhy_cause::{CauseShare, stalls};
use gpuwhy_model::units::{duration, printable};

const MOST_STALLS: usize = 5;
/// A smaller share does not help to find out.
const LEAST_PCT: f64 = 5.0;

pub(super) fn panel(view: &View<'_>) -> Option<Panel> {
    let mut panel =
        Panel::new("time lost", "blame").text("in").text("because of").text("of process").text("and");
    let stalls = stalls(view.tallies, view.ops);
    // Worth a line: more than a thousandth of the time traced.
    let worth = stalls.iter().filter(|stall| stall.excess_ns * 1000 > view.wall_ns());
    for stall in worth.take(MOST_STALLS) {
        let mut causes = stall.causes.iter().filter(|cause| cause.share_pct >= LEAST_PCT).map(cause);
        panel.row(vec![
            plain(duration(stall.excess_ns)),
            plain(stall.op.as_str()),
            plain(causes.next().unwrap_or_default()),
            plain(view.who(stall.pid)),
            plain(causes.next().unwrap_or_default()),
        ]);
    }
    panel.if_any()
}

fn cause(share: &CauseShare) -> String {
    let by = share.by.first().map(|by| format!(" ({} {})", printable(&by.comm), by.pid));
    format!("{:.0}% {}{}", share.share_pct, share.cause.name(), by.unwrap_or_default())
}
