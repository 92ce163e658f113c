//! What a step of each process is made of, over the last minute: the step tree in short.

use super::panel::{ANSWER, Panel, bad, plain};
use super::view::View;
use crate::explanation::steps::{is_main, part_line};
use gpuwhy_model::units::{duration, printable};

const MAX_PROCESSES: usize = 3;
const MAX_PARTS: usize = 4;
/// Smaller parts do not matter on a screen.
const MIN_SHARE_PCT: f64 = 3.0;

pub(super) fn panel(view: &View<'_>) -> Option<Panel> {
    let mut panel = Panel::new("steps", ANSWER).column("a step").column("share").text("goes to");
    // That of the first finding first.
    let first_pid = view.findings.first().and_then(|finding| finding.pid);
    let mut trees: Vec<_> = view.steps.iter().filter(|tree| tree.phase == "loop").collect();
    trees.sort_by_key(|tree| Some(tree.pid) != first_pid);
    for tree in trees.into_iter().take(MAX_PROCESSES) {
        let ended = if view.has_ended(tree.pid) { " (ended)" } else { "" };
        let name =
            format!("{}[{}]{ended}", printable(tree.process.as_deref().unwrap_or("process")), tree.pid);
        let busy = tree.gpu_busy_pct.map_or_else(String::new, |pct| format!("GPU busy {pct:.0}%"));
        let length = tree.found_by.as_ref().map_or_else(String::new, |_| time(tree.mean_ms));
        panel.row(vec![plain(name), plain(length), plain(""), plain(busy)]);
        let worth = |part: &&gpuwhy_cause::PathPart| part.share_pct >= MIN_SHARE_PCT && part.process != 0;
        for (at, part) in tree.path.iter().filter(worth).take(MAX_PARTS).enumerate() {
            let line = part_line(part, tree.pid);
            let line = if at == 0 && is_main(part) { bad(line) } else { plain(line) };
            let ms = if tree.found_by.is_some() { time(part.ms) } else { String::new() };
            panel.row(vec![plain(""), plain(ms), plain(format!("{:.0}%", part.share_pct)), line]);
        }
    }
    panel.if_any()
}

fn time(ms: f64) -> String {
    duration((ms * 1e6) as u64)
}
