//! Who is in the kernel's GPU driver: ioctls by process, of traced programs and of all others.

use super::panel::{Panel, bad_count, plain};
use super::view::View;
use super::words::percent;
use gpuwhy_cause::{Tallies, Tally};
use gpuwhy_model::Layer;
use gpuwhy_model::units::{count, duration};
use std::collections::BTreeMap;

const MAX_PROCESSES: usize = 8;

pub(super) fn panel(view: &View<'_>) -> Option<Panel> {
    let mut sums: BTreeMap<u32, Tally> = BTreeMap::new();
    for (pid, op, tally) in view.tallies.by_process() {
        if view.op(op).is_some_and(|op| op.layer == Layer::Driver) {
            sums.entry(pid).or_default().merge(tally);
        }
    }
    let mut sums: Vec<(u32, Tally)> = sums.into_iter().filter(|(_, tally)| tally.count > 0).collect();
    sums.sort_by_key(|(_, tally)| std::cmp::Reverse(tally.sum_ns));
    let failures = sums.iter().any(|(_, tally)| tally.errors > 0);
    let mut panel = Panel::new("in the driver", "driver_stats").column("ioctls").column("time");
    panel = panel.column("of the trace").column("p99").column("longest");
    if failures {
        panel = panel.column("failed");
    }
    for (pid, tally) in sums.iter().take(MAX_PROCESSES) {
        let who = if *pid == Tallies::ENDED { "ended before".into() } else { view.who(*pid) };
        let mut cells = vec![
            plain(who),
            plain(count(tally.count)),
            plain(duration(tally.sum_ns)),
            plain(percent(tally.sum_ns, view.wall_ns())),
            plain(duration(tally.quantile_ns(0.99))),
            plain(duration(tally.max_ns)),
        ];
        cells.extend(failures.then(|| bad_count(tally.errors)));
        panel.row(cells);
    }
    panel.if_any()
}
