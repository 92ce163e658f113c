//! What being watched costs each process.

use super::panel::{Panel, plain};
use super::view::View;
use gpuwhy_model::units::{count, duration};

const MAX_PROCESSES: usize = 8;

pub(super) fn panel(view: &View<'_>) -> Option<Panel> {
    let mut tracing_costs: Vec<_> = view.overview.tracing_costs.iter().collect();
    tracing_costs.sort_by_key(|(_, cost)| std::cmp::Reverse(cost.cost_ns));
    let mut panel = Panel::new("being watched costs", "watch_costs")
        .column("calls")
        .column("in all")
        .column("busiest thread")
        .text("seen");
    for (pid, cost) in tracing_costs.into_iter().take(MAX_PROCESSES) {
        panel.row(vec![
            plain(view.who(*pid)),
            plain(count(cost.calls)),
            plain(duration(cost.cost_ns)),
            plain(format!("{:.2}%", cost.share_pct())),
            plain(cost.level.about().to_string()),
        ]);
    }
    panel.if_any()
}
