//! Memory by process and GPU: how much lives, how much there was at most, whether it grows.

use super::panel::{Panel, bad_count, odd, plain};
use super::view::View;
use gpuwhy_model::MemoryKind;
use gpuwhy_model::units::size;
use ratatui::text::Line;
use std::collections::BTreeMap;

#[derive(Debug, Default)]
struct Sum {
    live_bytes: u64,
    peak_bytes: u64,
    growth: i64,
    managed_bytes: u64,
    pinned_bytes: u64,
    failures: u64,
}

pub(super) fn panel(view: &View<'_>) -> Option<Panel> {
    let mut sums: BTreeMap<(u32, Option<u16>), Sum> = BTreeMap::new();
    for ((pid, gpu, kind), memory) in &view.overview.memory {
        let sum = sums.entry((*pid, *gpu)).or_default();
        let last = &memory.last;
        match kind {
            MemoryKind::Device => {
                sum.live_bytes = last.live_bytes;
                sum.peak_bytes = last.peak_bytes;
                sum.growth = memory.growth(view.until_ns(*pid).unwrap_or(last.time_ns)).0;
            }
            MemoryKind::Managed => sum.managed_bytes = last.live_bytes,
            MemoryKind::Host | MemoryKind::Registered => sum.pinned_bytes += last.live_bytes,
        }
        sum.failures += last.failures;
    }
    let failures = sums.values().any(|sum| sum.failures > 0);
    let live = if view.live { "live" } else { "still live" };
    let numbered = sums.keys().any(|(_, gpu)| gpu.is_some());
    let mut panel = Panel::new("memory", "memory_stats");
    panel = if numbered { panel.column("GPU") } else { panel };
    panel = panel.column(live).column("peak").column("grown (1m)").column("managed").column("pinned");
    if failures {
        panel = panel.column("failed");
    }
    let mut sums: Vec<_> = sums.into_iter().collect();
    sums.sort_by_key(|(_, sum)| std::cmp::Reverse(sum.peak_bytes));
    for ((pid, gpu), sum) in sums {
        let mut cells = vec![plain(view.who(pid))];
        cells.extend(numbered.then(|| plain(gpu.map_or_else(|| "?".into(), |gpu| gpu.to_string()))));
        cells.extend([
            plain(size(sum.live_bytes)),
            plain(size(sum.peak_bytes)),
            growth(sum.growth),
            if_any(sum.managed_bytes),
            if_any(sum.pinned_bytes),
        ]);
        cells.extend(failures.then(|| bad_count(sum.failures)));
        panel.row(cells);
    }
    panel.if_any()
}

/// Memory that is given back is no news.
fn growth(bytes: i64) -> Line<'static> {
    match u64::try_from(bytes) {
        Ok(bytes @ 1..) => odd(format!("+{}", size(bytes))),
        _ => plain(""),
    }
}

fn if_any(bytes: u64) -> Line<'static> {
    plain(if bytes > 0 { size(bytes) } else { String::new() })
}
