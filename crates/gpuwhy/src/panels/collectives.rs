//! Collectives by operation: how often, how much, how long the ranks waited, and for whom.

use super::panel::{DIM, Panel, bad_count, odd, plain};
use super::view::View;
use super::words::hex;
use gpuwhy_agent::{CollectiveSum, Lateness};
use gpuwhy_model::units::{count, duration, printable, size};
use ratatui::text::Line;

/// Fewer collectives tell nothing about who comes late.
const FEW: u64 = 10;
const MAX_LATE: usize = 3;

pub(super) fn panel(view: &View<'_>) -> Option<Panel> {
    let collectives = &view.overview.collectives;
    let (mut work, others): (Vec<_>, Vec<_>) = collectives.by_event.iter().partition(|(_, sum)| sum.work > 0);
    work.sort_by_key(|(_, sum)| std::cmp::Reverse((sum.wait_ns, sum.count)));
    let open = collectives.open();
    let failures = work.iter().any(|(_, sum)| sum.errors > 0);
    let mut panel = Panel::new("collectives", "nccl_events").column("calls").column("bytes");
    panel = panel.column("mean wait").column("longest").column("not done");
    if failures {
        panel = panel.column("failed");
    }
    for (event, sum) in work {
        let not_done = open.get(event.as_str()).copied().unwrap_or(0);
        let mut cells = vec![plain(printable(event)), plain(count(sum.count)), plain(size(sum.bytes))];
        cells.extend(waits(sum));
        cells.push(plain(if not_done > 0 { count(not_done) } else { String::new() }));
        cells.extend(failures.then(|| bad_count(sum.errors)));
        panel.row(cells);
    }
    for late in collectives.late().iter().filter(|late| is_usual(late)).take(MAX_LATE) {
        panel.note(odd(format!(
            "rank {} (pid {}) came last in {} of {}, {} after the first on average; communicator {}",
            late.rank,
            late.pid,
            count(late.last_times),
            count(late.of),
            duration(late.late_ns / late.last_times.max(1)),
            hex(late.comm_id_hash),
        )));
    }
    if !others.is_empty() {
        let calls: Vec<String> =
            others.iter().map(|(event, sum)| format!("{} {}", printable(event), count(sum.count))).collect();
        panel.note(Line::from(format!("besides {}", calls.join(", "))).style(DIM));
    }
    panel.if_any()
}

fn waits(sum: &CollectiveSum) -> [Line<'static>; 2] {
    match sum.waited {
        0 => [plain("unknown"), plain("")],
        waited => [plain(duration(sum.wait_ns / waited)), plain(duration(sum.longest_wait_ns))],
    }
}

/// Somebody is always the last; the same rank most of the time is not chance.
fn is_usual(late: &Lateness) -> bool {
    late.of >= FEW && late.last_times * 2 > late.of
}
