//! The operations: how often, how long, and where their time went.

use super::panel::{Panel, bad_count, plain};
use super::{View, words::percent};
use gpuwhy_cause::Tally;
use gpuwhy_model::units::duration;
use gpuwhy_model::{CallClass, OpInfo, Part, Reason};
use ratatui::style::{Color, Style};
use ratatui::text::{Line, Span};

const BAR_WIDTH: usize = 10;
/// Of the bars.
pub(crate) const LEGEND: &str = "█ running or GPU wait  ▓ CPU taken  ▒ lock  ░ disk, net, driver  · asleep";

pub(super) fn panel(view: &View<'_>) -> Option<Panel> {
    let mut rows: Vec<(&OpInfo, Tally)> = view
        .tallies
        .by_op()
        .into_iter()
        .filter_map(|(id, tally)| Some((view.op(id)?, tally)))
        .filter(|(_, tally)| tally.count > 0)
        .collect();
    rows.sort_by_key(|(_, tally)| std::cmp::Reverse(tally.sum_ns));
    let mut panel =
        Panel::new("operation", "op_summary").column("calls").column("p50").column("p95").spare(1);
    panel = panel.column("p99").column("max").spare(3);
    let failures = rows.iter().any(|(_, tally)| tally.errors > 0);
    if failures {
        panel = panel.column("failed");
    }
    panel = match view.live {
        true => panel.text("where").spare(2).text("the time went"),
        false => panel.column("on-CPU").column("ready").column("blckd"),
    };
    for (op, tally) in rows {
        let mut cells = vec![
            plain(op.name.as_str()),
            plain(view.calls(CallClass::of_op(op), tally.count)),
            plain(duration(tally.quantile_ns(0.5))),
            plain(duration(tally.quantile_ns(0.95))),
            plain(duration(tally.quantile_ns(0.99))),
            plain(duration(tally.max_ns)),
        ];
        cells.extend(failures.then(|| bad_count(tally.errors)));
        match view.live {
            true => cells.extend(split(op, &tally)),
            false => {
                let blame = &tally.blame;
                let parts = [blame.oncpu_ns, blame.runq_ns, blame.blocked_total_ns()];
                cells.extend(parts.map(|ns| plain(percent(ns, tally.sum_ns))));
            }
        }
        panel.row(cells);
    }
    if view.live {
        panel.legend(plain(LEGEND));
    }
    panel.if_any()
}

/// The split as a bar, each part with its own character so that it reads without colour too, and its largest part.
fn split(op: &OpInfo, tally: &Tally) -> [Line<'static>; 2] {
    let total = tally.blame.total_ns().max(1);
    let (mut spans, mut used, mut largest) = (Vec::new(), 0, (0, ""));
    for (part, ns) in tally.blame.parts() {
        let (symbol, colour, name) = look(part, op.waits_for_gpu);
        if ns > largest.0 {
            largest = (ns, name);
        }
        let width = (ns as f64 / total as f64 * BAR_WIDTH as f64).round() as usize;
        let width = width.min(BAR_WIDTH - used);
        used += width;
        spans.push(Span::styled(symbol.repeat(width), Style::new().fg(colour)));
    }
    [Line::from(spans), plain(format!("{:>4} {}", percent(largest.0, total), largest.1))]
}

/// Character, colour and name of a part of time.
fn look(part: Part, waits_for_gpu: bool) -> (&'static str, Color, &'static str) {
    match part {
        Part::OnCpu if waits_for_gpu => ("█", Color::Blue, "waiting for GPU"),
        Part::OnCpu => ("█", Color::Green, "on CPU"),
        Part::Runnable => ("▓", Color::Red, "ready, CPU taken"),
        Part::Blocked(Reason::Futex) => ("▒", Color::Yellow, "lock"),
        Part::Blocked(Reason::BlockIo) => ("░", Color::Magenta, "disk"),
        Part::Blocked(Reason::File) => ("░", Color::Magenta, "file"),
        Part::Blocked(Reason::Socket) => ("░", Color::Cyan, "socket"),
        Part::Blocked(Reason::Poll) => ("░", Color::Cyan, "poll"),
        Part::Blocked(Reason::Ioctl) => ("░", Color::Blue, "driver"),
        Part::Blocked(Reason::Fault) => ("░", Color::Yellow, "page fault"),
        Part::Blocked(Reason::Sleep) => ("·", Color::Gray, "asleep"),
        Part::Blocked(Reason::Other) => ("·", Color::Gray, "blocked"),
        Part::Blocked(Reason::Gil) => ("▒", Color::Yellow, "Python's GIL"),
        Part::Blocked(Reason::Reclaim) => ("░", Color::Yellow, "freeing memory"),
        Part::Blocked(Reason::Throttled) => ("▓", Color::Red, "CPU quota"),
        Part::Blocked(Reason::Interrupt) => ("▓", Color::Magenta, "interrupts"),
    }
}
