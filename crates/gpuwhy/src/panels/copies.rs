//! Copies by direction.

use super::panel::{Panel, bad_count, plain};
use super::view::View;
use super::words::rate;
use gpuwhy_model::Direction;
use gpuwhy_model::units::{count, duration, size};
use std::collections::BTreeSet;

pub(super) fn panel(view: &View<'_>) -> Option<Panel> {
    let copies = &view.overview.copies;
    let failures = copies.values().any(|sum| sum.errors > 0);
    let mut panel = Panel::new("copies", "copy_stats").column("bytes");
    panel =
        panel.column(if view.live { "now" } else { "on average" }).column("copies").column("time in calls");
    if failures {
        panel = panel.column("failed");
    }
    panel = panel.text("by");
    for direction in Direction::ALL {
        let sums = || copies.iter().filter(|((_, way), _)| *way == direction);
        let total = |field: fn(&gpuwhy_agent::CopySum) -> u64| sums().map(|(_, sum)| field(sum)).sum::<u64>();
        let pids: BTreeSet<u32> = sums().map(|((pid, _), _)| *pid).collect();
        let Some(first) = pids.first() else { continue };
        let bytes = total(|sum| sum.bytes);
        let per_s = match view.live {
            true => sums().map(|(_, sum)| sum.bytes_per_s(view.now_ns)).sum(),
            false => (bytes as f64 * 1e9 / view.wall_ns() as f64) as u64,
        };
        let by = if pids.len() == 1 { view.who(*first) } else { format!("{} processes", pids.len()) };
        let mut cells = vec![
            plain(direction.name().replace('_', " ")),
            plain(size(bytes)),
            plain(rate(per_s)),
            plain(count(total(|sum| sum.count))),
            plain(duration(total(|sum| sum.sum_ns))),
        ];
        cells.extend(failures.then(|| bad_count(total(|sum| sum.errors))));
        cells.push(plain(by));
        panel.row(cells);
    }
    panel.if_any()
}
