//! What happens once and makes first calls slow.

use super::panel::{Panel, plain};
use super::view::View;
use gpuwhy_model::units::{count, duration, printable};

pub(super) fn panel(view: &View<'_>) -> Option<Panel> {
    let mut panel = Panel::new("cold starts", "coldstart_events").column("times").column("time in all");
    let mut events: Vec<_> = view.overview.cold_starts.iter().collect();
    events.sort_by_key(|(_, (_, ns))| std::cmp::Reverse(*ns));
    for (event, (times, ns)) in events {
        panel.row(vec![
            plain(printable(event).replace('_', " ")),
            plain(count(*times)),
            plain(duration(*ns)),
        ]);
    }
    panel.if_any()
}
