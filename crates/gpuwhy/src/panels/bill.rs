//! What being watched costs each process.

use super::panel::{Panel, plain};
use super::view::View;
use gpuwhy_model::units::{count, duration};

const MAX_PROCESSES: usize = 8;

pub(super) fn panel(view: &View<'_>) -> Option<Panel> {
    let mut bills: Vec<_> = view.overview.bills.iter().collect();
    bills.sort_by_key(|(_, bill)| std::cmp::Reverse(bill.cost_ns));
    let mut panel = Panel::new("being watched costs", "watch_costs")
        .column("calls")
        .column("in all")
        .column("busiest thread")
        .text("seen");
    for (pid, bill) in bills.into_iter().take(MAX_PROCESSES) {
        panel.row(vec![
            plain(view.who(*pid)),
            plain(count(bill.calls)),
            plain(duration(bill.cost_ns)),
            plain(format!("{:.2}%", bill.share_pct())),
            plain(bill.level.about().to_string()),
        ]);
    }
    panel.if_any()
}
