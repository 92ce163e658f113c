//! Stalls of a loop whose turns are not known: windows of time in which one thing, which the loop else does not do, took all
//! the time.

use super::parts::{Divider, Key, Part, clipped, is_running};
use super::steps::Turn;
use super::walk::{Segment, What};
use gpuwhy_model::{Cause, Span};
use std::collections::BTreeMap;

/// A stall of several windows is found whole, whatever its phase.
const WINDOW_NS: u64 = 50_000_000;
/// A day of a server is looked at in longer windows.
const MAX_WINDOWS: u64 = 4_000;
/// Of a window that belongs to a stall.
const MOSTLY: f64 = 0.5;
/// Shorter ones are what a busy host does.
const MIN_WINDOWS: usize = 3;
/// What takes more than this share of all windows is how the loop is, and no stall.
const MAX_SHARE: f64 = 0.25;
/// But what came once or twice may have taken long.
const MAX_RUNS: usize = 2;
const MAX_SHARE_OF_FEW: f64 = 0.6;
/// A stall is a wait or a few; who polls waits for work, many times.
const MAX_WAITS: u64 = 3;
const MAX_STALLS: usize = 64;

/// Longest first.
pub(crate) fn stalls(divider: &Divider<'_>, path: &[Segment], span: Span) -> Vec<Turn> {
    let step_ns = WINDOW_NS.max(span.ns() / MAX_WINDOWS);
    let windows: Vec<Span> = (span.start_ns..span.end_ns)
        .step_by(step_ns as usize)
        .map(|start_ns| Span { start_ns, end_ns: (start_ns + step_ns).min(span.end_ns) })
        .collect();
    let filled: Vec<Option<Key>> = windows.iter().map(|window| filled_by(divider, path, *window)).collect();
    // Windows, and runs of them.
    let mut of_key: BTreeMap<&Key, (usize, usize)> = BTreeMap::new();
    for run in filled.chunk_by(PartialEq::eq) {
        if let Some(key) = &run[0] {
            let (count, runs) = of_key.entry(key).or_default();
            (*count, *runs) = (*count + run.len(), *runs + 1);
        }
    }
    let is_rare = |key: &Key| {
        of_key.get(key).is_some_and(|(count, runs)| {
            let max = if *runs <= MAX_RUNS { MAX_SHARE_OF_FEW } else { MAX_SHARE };
            *count as f64 <= windows.len() as f64 * max
        })
    };
    let mut found = Vec::new();
    let mut at = 0;
    for run in filled.chunk_by(PartialEq::eq) {
        let (first, last) = (at, at + run.len() - 1);
        at += run.len();
        let Some(key) = run[0].as_ref().filter(|key| run.len() >= MIN_WINDOWS && is_rare(key)) else {
            continue;
        };
        // It began and ended within the windows on both sides.
        let whole = Span {
            start_ns: windows[first.saturating_sub(1)].start_ns,
            end_ns: windows[(last + 1).min(windows.len() - 1)].end_ns,
        };
        let span = waited(divider, path, whole, key).unwrap_or(whole);
        let turn = Turn { span, parts: divider.parts(path, span) };
        let is_one = |part: &Part| is_running(key.class) || part.waits <= MAX_WAITS;
        if turn.parts.get(key).is_some_and(is_one) {
            found.push(turn);
        }
    }
    found.sort_by_key(|turn| std::cmp::Reverse(turn.span.ns()));
    found.truncate(MAX_STALLS);
    found
}

/// From the first to the last of the waits that are the stall: waits are clocked, windows are not.
fn waited(divider: &Divider<'_>, path: &[Segment], whole: Span, key: &Key) -> Option<Span> {
    let waits = || {
        clipped(path, whole).filter(|segment| match segment.what {
            What::Waiting(wait) => wait.tid == key.tid && divider.class_of_wait(&wait) == key.class,
            What::Running => false,
        })
    };
    let start_ns = waits().map(|segment| segment.span.start_ns).min()?;
    let end_ns = waits().map(|segment| segment.span.end_ns).max()?;
    Some(Span { start_ns, end_ns })
}

/// What takes most of a window, if that may be a stall: a server that waits for requests, or for its GPU, does what it is for.
fn filled_by(divider: &Divider<'_>, path: &[Segment], window: Span) -> Option<Key> {
    let parts = divider.parts(path, window);
    let (key, part) = parts.into_iter().max_by_key(|(_, part)| part.ns)?;
    let may_stall =
        !matches!(key.class, Cause::LaunchBound | Cause::GpuWait | Cause::NetWait | Cause::Unknown);
    (may_stall && part.ns as f64 >= MOSTLY * window.ns() as f64).then_some(key)
}
