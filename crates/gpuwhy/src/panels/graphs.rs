//! CUDA graphs: how many there are, and what a launch of one stands for.

use super::panel::{Panel, odd, plain};
use super::view::View;
use gpuwhy_model::units::{count, duration};
use std::collections::BTreeMap;

#[derive(Debug, Default)]
struct Sum {
    made: u64,
    alive: u64,
    launches: u64,
    launch_ns: u64,
    /// Launches of graphs whose contents are known, and the kernels in them.
    known: u64,
    kernels: u64,
}

pub(super) fn panel(view: &View<'_>) -> Option<Panel> {
    let mut sums: BTreeMap<u32, Sum> = BTreeMap::new();
    for ((_, pid, _), graph) in &view.overview.graphs {
        let sum = sums.entry(*pid).or_default();
        sum.made += 1;
        sum.alive += u64::from(!graph.destroyed);
        sum.launches += graph.launches;
        sum.launch_ns += graph.launch_ns;
        if let Some(kernels) = graph.kernels {
            sum.known += graph.launches;
            sum.kernels += graph.launches * kernels;
        }
    }
    let mut panel = Panel::new("graphs", "graphs").column("made").column("alive").column("launches");
    panel = panel.column("kernels a launch").column("a launch call takes");
    let mut sums: Vec<(u32, Sum)> = sums.into_iter().collect();
    sums.sort_by_key(|(_, sum)| std::cmp::Reverse(sum.launches));
    for (pid, sum) in sums {
        let (older, older_launches) = view.overview.older_graphs.get(&pid).copied().unwrap_or_default();
        let kernels = match sum.known {
            0 if sum.launches > 0 => odd("unknown (made before)"),
            0 => plain(""),
            known => plain(format!("{:.1}", sum.kernels as f64 / known as f64)),
        };
        let alive = if view.lives(pid) { count(sum.alive) } else { String::new() };
        panel.row(vec![
            plain(view.who(pid)),
            plain(count(sum.made + older)),
            plain(alive),
            plain(count(sum.launches + older_launches)),
            kernels,
            plain(duration(sum.launch_ns / sum.launches.max(1))),
        ]);
    }
    panel.if_any()
}
