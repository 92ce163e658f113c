//! The kernels that were launched most, by name.

use super::panel::{DIM, Panel, plain};
use super::view::View;
use super::words::kernel_name;
use gpuwhy_model::CallClass;
use gpuwhy_model::units::{count, duration};
use ratatui::text::Line;
use std::collections::{BTreeSet, HashMap};

const MAX_KERNELS: usize = 10;
const NAME_WIDTH: usize = 44;

#[derive(Debug, Default)]
struct Sum {
    launches: u64,
    launch_ns: u64,
    processes: BTreeSet<u32>,
}

pub(super) fn panel(view: &View<'_>) -> Option<Panel> {
    let mut sums: HashMap<&str, Sum> = HashMap::new();
    for ((pid, _), kernel) in &view.overview.kernels {
        let sum = sums.entry(&kernel.name).or_default();
        sum.launches += kernel.launches;
        sum.launch_ns += kernel.launch_ns;
        sum.processes.insert(*pid);
    }
    let mut sums: Vec<(&str, Sum)> = sums.into_iter().filter(|(_, sum)| sum.launches > 0).collect();
    sums.sort_by_key(|(name, sum)| (std::cmp::Reverse(sum.launches), *name));
    let mut panel = Panel::new("kernels launched most", "kernels").column("launches");
    panel = panel.column("a launch call takes").column("processes");
    for (name, sum) in sums.iter().take(MAX_KERNELS) {
        let name = match name.is_empty() {
            true => "(name unknown)".to_string(),
            false => kernel_name(name, NAME_WIDTH),
        };
        panel.row(vec![
            plain(name),
            plain(view.calls(Some(CallClass::Launches), sum.launches)),
            plain(duration(sum.launch_ns / sum.launches.max(1))),
            plain(count(sum.processes.len() as u64)),
        ]);
    }
    let graphs = view.overview.graphs.values();
    let in_graphs: u64 = graphs.map(|graph| graph.launches * graph.kernels.unwrap_or(0)).sum();
    if in_graphs > 0 {
        let text = format!("besides {} that graphs ran, see view graph_kernels", count(in_graphs));
        panel.note(Line::from(text).style(DIM));
    }
    panel.if_any()
}
