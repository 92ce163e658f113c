//! Counters of errors and congestion of RDMA ports that rose, and their asynchronous events.

use super::panel::{Panel, bad, odd, plain};
use super::view::View;
use gpuwhy_model::units::{count, printable};

pub(super) fn panel(view: &View<'_>) -> Option<Panel> {
    let mut panel =
        Panel::new("fabric trouble", "rdma_events").text("counter or event").column("in this trace");
    for ((device, counter), rise) in &view.overview.fabric {
        let rise = format!("+{}", count(*rise));
        let rise = if is_congestion(counter) { odd(rise) } else { bad(rise) };
        panel.row(vec![plain(printable(device)), plain(printable(counter)), rise]);
    }
    panel.if_any()
}

/// A busy fabric, not a broken one.
fn is_congestion(counter: &str) -> bool {
    ["cnp", "ecn", "wait"].iter().any(|word| counter.contains(word))
}
