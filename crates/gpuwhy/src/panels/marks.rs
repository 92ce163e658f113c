//! Where programs are by their own account: the latest step, epoch or request of each.

use super::panel::{Panel, odd, plain};
use super::view::View;
use gpuwhy_model::units::{count, duration, printable};

const MAX_MARKS: usize = 12;

pub(super) fn panel(view: &View<'_>) -> Option<Panel> {
    let mut panel = Panel::new("marked", "annotations")
        .text("last")
        .column("so far")
        .column("mean")
        .column("longest")
        .text("by")
        .spare(1);
    let mut marks: Vec<_> = view.overview.marks.iter().collect();
    marks.sort_by_key(|(_, sum)| std::cmp::Reverse(sum.last_ns));
    for ((event, pid), sum) in marks.into_iter().take(MAX_MARKS) {
        let took = |ns: u64| if sum.ended > 0 { plain(duration(ns)) } else { plain("") };
        panel.row(vec![
            plain(printable(event)),
            plain(printable(&sum.last_value)),
            plain(count(sum.count)),
            took(sum.sum_ns / sum.ended.max(1)),
            took(sum.max_ns),
            plain(pid.map_or_else(String::new, |pid| view.who(pid))),
        ]);
    }
    let refused: u64 = view.overview.refused_annotations.values().sum();
    if refused > 0 {
        panel.note(odd(format!("{} lines were refused", count(refused))));
    }
    panel.if_any()
}
