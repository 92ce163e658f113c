//! Stalls that come at a steady beat: a timer, a checkpoint, a scraper.

use super::Rule;
use crate::attribution::Attribution;
use crate::case::Case;
use crate::draft::{Draft, seconds};
use crate::evidence::Pace;
use crate::severity::{matters, percent};
use gpuwhy_model::{Cause, Severity};

pub(super) const RULE: Rule = Rule {
    name: "periodic",
    about: "windows with far longer calls than usual that come at a steady beat",
    causes: &[Cause::Unknown],
    threshold: "5 spikes, each 8 times the median of the windows' longest call and 1 ms, whose distances differ by a fifth of their \
                median at most. Low: the beat is a lead, what took the time is in the other findings",
    refuted_by: "a longer trace in which the spikes fall out of step",
    find,
};

const MIN_SPIKES: usize = 5;
const TIMES_MEDIAN: u64 = 8;
const MIN_NS: u64 = 1_000_000;
/// Two neighbouring windows are one spike; a beat shorter than that is none.
const MIN_DISTANCE: u64 = 3;

fn find(case: &Case<'_>) -> Vec<Draft> {
    case.pids().filter_map(|pid| draft(case, pid)).collect()
}

fn draft(case: &Case<'_>, pid: u32) -> Option<Draft> {
    let mut paces: Vec<&Pace> =
        case.evidence.paces.iter().filter(|pace| pace.pid == pid && pace.calls > 0).collect();
    paces.sort_by_key(|pace| pace.window_start_ns);
    let mut longest: Vec<u64> = paces.iter().map(|pace| pace.longest_ns).collect();
    longest.sort_unstable();
    let median = *longest.get(longest.len() / 2)?;
    let limit = median.saturating_mul(TIMES_MEDIAN).max(MIN_NS);
    let window = paces.first()?.window_ns.max(1);
    let mut spikes: Vec<u64> = Vec::new();
    for pace in paces.iter().filter(|pace| pace.longest_ns > limit) {
        if spikes.last().is_none_or(|last| pace.window_start_ns > last + 2 * window) {
            spikes.push(pace.window_start_ns);
        }
    }
    if spikes.len() < MIN_SPIKES {
        return None;
    }
    let mut distances: Vec<u64> = spikes.windows(2).map(|pair| pair[1] - pair[0]).collect();
    distances.sort_unstable();
    let period = distances[distances.len() / 2];
    let is_steady = distances.iter().all(|distance| distance.abs_diff(period) <= (period / 5).max(window));
    let lost: u64 = paces.iter().filter(|pace| pace.longest_ns > limit).map(|pace| pace.longest_ns).sum();
    let wall = case.wall(pid).ns();
    if !is_steady || period < MIN_DISTANCE * window || !matters(lost, wall) {
        return None;
    }
    let mut attribution = Attribution::default();
    attribution.add(Cause::Unknown, lost);
    attribution.note(
        Cause::Unknown,
        format!(
            "{} spikes, {} apart; the longest call of a usual window takes {}",
            spikes.len(),
            seconds(period),
            seconds(median)
        ),
    );
    Some(Draft {
        severity: Some(Severity::Low),
        title: format!(
            "{} stalls every {}: {} times, {} ({:.0}% of its time)",
            case.name(pid),
            seconds(period),
            spikes.len(),
            seconds(lost),
            percent(lost, wall)
        ),
        pid: Some(pid),
        fixes: vec![format!(
            "look for what runs every {}: checkpoints, timers (systemctl list-timers), scrapers",
            seconds(period)
        )],
        sql: format!(
            "SELECT window_start_ns, op, max_ns FROM call_stats WHERE pid = {pid} AND max_ns > {limit} ORDER BY 1"
        ),
        attribution,
        ..Draft::default()
    })
}
