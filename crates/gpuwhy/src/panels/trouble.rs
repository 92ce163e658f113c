//! What must not be overlooked: errors of GPUs and the fabric, calls that do not return, ranks that do not come,
//! allocations that failed, clocks that are held down.

use super::panel::{Panel, bad};
use super::view::View;
use super::words::{counted, hex};
use super::xid::meaning;
use crate::explanation::coverage::by_place;
use gpuwhy_agent::Straggling;
use gpuwhy_model::units::{duration, printable, size};
use gpuwhy_model::{CallInFlight, GpuError};

const MAX_PER_KIND: usize = 3;
/// Ranks never come at the same moment.
const LONG_NS: u64 = 1_000_000_000;
const MAX_RANKS: usize = 8;

pub(super) fn panel(view: &View<'_>) -> Option<Panel> {
    let overview = view.overview;
    let mut panel = Panel::new("TROUBLE", "events");
    if let Some(lost) = view.lost.filter(|lost| lost.lost > 0) {
        let what = counted(lost.lost, "record", "records");
        panel.paragraph(bad("LOST "), format!("{what}{}", by_place(&lost.lost_by)));
    }
    for error in overview.gpu_errors.iter().rev().take(MAX_PER_KIND) {
        panel.note(bad(gpu_error(view, error)));
    }
    let older = overview.gpu_errors_seen.saturating_sub(MAX_PER_KIND as u64);
    if older > 0 {
        panel.note(bad(format!(
            "... and {} before, see table gpu_errors",
            counted(older, "GPU error", "GPU errors")
        )));
    }
    let straggling = overview.collectives.straggling();
    let stuck = straggling.iter().filter(|straggling| is_stuck(view, straggling));
    for straggling in stuck.take(MAX_PER_KIND) {
        panel.note(bad(not_reached(view, straggling)));
    }
    let mut calls: Vec<&CallInFlight> = overview.in_flight.values().collect();
    calls.sort_by_key(|call| call.start_ns);
    for call in calls.iter().take(MAX_PER_KIND) {
        panel.note(bad(in_flight(view, call)));
    }
    if calls.len() > MAX_PER_KIND {
        let more = calls.len() - MAX_PER_KIND;
        panel.note(bad(format!(
            "... and {more} more calls that have not returned, see table calls_in_flight"
        )));
    }
    if let Some(failure) = &overview.memory_failure {
        panel.note(bad(format!(
            "{} failed; {} ago {} wanted {}, {} in use",
            counted(overview.memory_failures, "allocation", "allocations"),
            duration(view.now_ns.saturating_sub(failure.time_ns)),
            view.who(failure.pid),
            size(failure.bytes),
            size(failure.live_bytes),
        )));
    }
    panel.answer().if_any()
}

fn gpu_error(view: &View<'_>, error: &GpuError) -> String {
    let gpu = match error.gpu {
        Some(gpu) => format!("GPU {gpu}"),
        None => format!("GPU {}", printable(&error.device)),
    };
    let what = match error.event.as_str() {
        "xid" => format!("Xid {}", error.code),
        event => printable(event),
    };
    let who = error.pid.filter(|pid| *pid != 0).map(|pid| format!(" in {}", view.who(pid)));
    let ago = duration(view.now_ns.saturating_sub(error.time_ns));
    let message = match error.message.as_str() {
        "" => meaning(error.code).unwrap_or_default().into(),
        message => printable(message),
    };
    let message = if message.is_empty() { message } else { format!(": {message}") };
    format!("{gpu}: {what}{} {ago} ago{message}", who.unwrap_or_default())
}

/// Somebody still waits for it.
fn is_stuck(view: &View<'_>, straggling: &Straggling) -> bool {
    view.now_ns.saturating_sub(straggling.since_ns) >= LONG_NS
        && straggling.waiting.iter().any(|(_, pid)| view.lives(*pid))
}

fn not_reached(view: &View<'_>, straggling: &Straggling) -> String {
    let missing: Vec<String> = straggling
        .missing
        .iter()
        .take(MAX_RANKS)
        .map(|(rank, pid, seq)| {
            let ended = if view.lives(*pid) { "" } else { ", ended" };
            format!("rank {rank} (pid {pid}, at {seq}{ended})")
        })
        .collect();
    let others = straggling.missing.len().saturating_sub(MAX_RANKS);
    let others = if others > 0 { format!(" and {others} more") } else { String::new() };
    format!(
        "{}{others} missing at {} {}: {} waiting for {}; communicator {}",
        missing.join(", "),
        straggling.event,
        straggling.seq,
        counted(straggling.waiting.len() as u64, "rank", "ranks"),
        duration(view.now_ns.saturating_sub(straggling.since_ns)),
        hex(straggling.comm_id_hash),
    )
}

fn in_flight(view: &View<'_>, call: &CallInFlight) -> String {
    let name = view.op(call.op).map_or("a call", |op| &op.name);
    let collective = call.comm_id_hash.map(|hash| {
        let rank = call.rank.map(|rank| format!(" rank {rank}")).unwrap_or_default();
        let nranks = call.nranks.map(|nranks| format!(" of {nranks}")).unwrap_or_default();
        let seq = call.seq.map(|seq| format!(" seq {seq}")).unwrap_or_default();
        format!(", communicator {}{rank}{nranks}{seq}", hex(hash))
    });
    let line = call.line.as_deref().map(|line| format!(", at {}", printable(line)));
    format!(
        "{name} of {} has not returned for {}{}{}",
        view.who(call.pid),
        duration(view.now_ns.saturating_sub(call.start_ns)),
        line.unwrap_or_default(),
        collective.unwrap_or_default(),
    )
}
