//! How this host's ranks stand against their cohort's threshold: the fleet's own, the last one it told, or, while it is
//! away for long, what the rank itself used to have. Pure.

use std::collections::{BTreeMap, VecDeque};

/// What the fleet tells with the answer to a push.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Advice {
    /// Below this health a rank is a straggler; nothing while the cohort is too small to tell.
    pub threshold: Option<f64>,
    pub quorum_met: bool,
    pub cohort: String,
}

/// Where the threshold comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mode {
    /// Told a moment ago.
    Live,
    /// Told before the fleet went away.
    Cached,
    /// Too long ago: compared with the rank's own past.
    Own,
    /// There is nothing to compare with.
    #[default]
    None,
}

impl Mode {
    pub fn name(self) -> &'static str {
        match self {
            Mode::Live => "live threshold",
            Mode::Cached => "cached threshold",
            Mode::Own => "own baseline",
            Mode::None => "none",
        }
    }
}

/// Something changed: worth a line.
#[derive(Debug, Clone, PartialEq)]
pub enum Reported {
    Mode(Mode),
    Below { rank: Option<i32>, pid: u32, health: f64, threshold: f64, mode: Mode },
    Back { rank: Option<i32>, pid: u32, health: f64 },
}

impl Reported {
    /// In a sentence.
    pub fn message(&self) -> String {
        let who = |rank: &Option<i32>, pid: &u32| match rank {
            Some(rank) => format!("rank {rank} (process {pid})"),
            None => format!("process {pid}"),
        };
        match self {
            Reported::Mode(Mode::Live) => "the fleet tells the threshold its peers have".into(),
            Reported::Mode(Mode::Cached) => "the fleet is away: its last threshold holds".into(),
            Reported::Mode(Mode::Own) => {
                "the fleet is away for long: ranks are compared with their own past".into()
            }
            Reported::Mode(Mode::None) => "there is no threshold, and no past, to compare ranks with".into(),
            Reported::Below { rank, pid, health, threshold, mode } => format!(
                "{} drags its peers: health {health:.3}, below {threshold:.3} ({})",
                who(rank, pid),
                mode.name()
            ),
            Reported::Back { rank, pid, health } => {
                format!("{} is back among its peers: health {health:.3}", who(rank, pid))
            }
        }
    }
}

const LIVE_NS: u64 = 15_000_000_000;
const CACHED_NS: u64 = 600_000_000_000;
/// Of a rank's own past.
const PAST: usize = 120;
const PAST_AT_LEAST: usize = 10;
/// Of so many pushes the median is compared: a host that stumbles once is no straggler.
const LATELY: usize = 5;
/// Thresholds of few peers waver by about this.
const MARGIN: f64 = 0.02;
/// So many times in a row above the threshold before it is said to be back.
const ABOVE: u32 = 3;
/// As the fleet's rule has it.
const DEVIATIONS: f64 = 3.0;
const MAD_TO_SIGMA: f64 = 1.4826;
/// Equal values shall not alarm on nothing.
const MIN_SPREAD: f64 = 0.02;

#[derive(Debug, Default)]
pub struct Standing {
    advice: Option<(Advice, u64)>,
    mode: Mode,
    ranks: BTreeMap<u32, OfRank>,
}

#[derive(Debug, Default)]
struct OfRank {
    past: VecDeque<f64>,
    above: u32,
    is_below: bool,
}

impl Standing {
    /// What was told at `now_ns`, or at an earlier time where it was kept in a file.
    pub fn advise(&mut self, advice: Advice, now_ns: u64) {
        self.advice = Some((advice, now_ns));
    }

    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// The health of ranks as it was just reported.
    pub fn see(&mut self, healths: &[super::Health], now_ns: u64) -> Vec<Reported> {
        let mut reported = Vec::new();
        let mode = self.mode_at(now_ns, healths);
        if mode != self.mode {
            self.mode = mode;
            reported.push(Reported::Mode(mode));
        }
        let of_fleet = self.advice.as_ref().filter(|(advice, _)| advice.quorum_met);
        let of_fleet = of_fleet.and_then(|(advice, _)| advice.threshold);
        self.ranks.retain(|pid, _| healths.iter().any(|health| health.pid == *pid));
        for seen in healths {
            let rank = self.ranks.entry(seen.pid).or_default();
            let threshold = match mode {
                Mode::Live | Mode::Cached => of_fleet,
                Mode::Own => own_threshold(&rank.past),
                Mode::None => None,
            };
            rank.past.push_back(seen.health);
            if rank.past.len() > PAST {
                rank.past.pop_front();
            }
            let Some(threshold) = threshold else { continue };
            // One that is seen for the first time is given the benefit of the doubt.
            let Some(health) = lately(&rank.past) else { continue };
            let is_below = health < threshold - MARGIN;
            rank.above = if is_below { 0 } else { rank.above + 1 };
            let (number, pid) = (seen.rank, seen.pid);
            if !rank.is_below && is_below {
                rank.is_below = true;
                reported.push(Reported::Below { rank: number, pid, health, threshold, mode });
            } else if rank.is_below && rank.above >= ABOVE {
                rank.is_below = false;
                reported.push(Reported::Back { rank: number, pid, health });
            }
        }
        reported
    }

    fn mode_at(&self, now_ns: u64, healths: &[super::Health]) -> Mode {
        let age = self.advice.as_ref().map(|(_, reported_ns)| now_ns.saturating_sub(*reported_ns));
        let has_past = || {
            let past = |pid: u32| self.ranks.get(&pid).map_or(0, |rank| rank.past.len());
            healths.iter().any(|health| past(health.pid) >= PAST_AT_LEAST)
        };
        match age {
            Some(age) if age <= LIVE_NS => Mode::Live,
            Some(age) if age <= CACHED_NS => Mode::Cached,
            _ if has_past() => Mode::Own,
            _ => Mode::None,
        }
    }
}

/// The median of the last few; nothing of fewer than three.
fn lately(past: &VecDeque<f64>) -> Option<f64> {
    let last: Vec<f64> = past.iter().rev().take(LATELY).copied().collect();
    (last.len() > LATELY / 2).then(|| median_of(last))
}

fn own_threshold(past: &VecDeque<f64>) -> Option<f64> {
    if past.len() < PAST_AT_LEAST {
        return None;
    }
    let median = median_of(past.iter().copied().collect());
    let spread = median_of(past.iter().map(|value| (value - median).abs()).collect()) * MAD_TO_SIGMA;
    Some(median - DEVIATIONS * spread.max(MIN_SPREAD))
}

fn median_of(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() % 2 {
        0 if middle > 0 => f64::midpoint(values[middle - 1], values[middle]),
        _ => values.get(middle).copied().unwrap_or(0.0),
    }
}

#[cfg(test)]
mod tests {
    use super::super::Health;
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn health(health: f64) -> Vec<Health> {
        vec![Health { pid: 7, rank: Some(5), health }]
    }

    fn advice(threshold: f64) -> Advice {
        Advice { threshold: Some(threshold), quorum_met: true, cohort: "job".into() }
    }

    #[test]
    fn a_rank_below_the_threshold_is_named_at_the_third_push_and_let_go_when_it_stays_above() {
        let mut standing = Standing::default();
        standing.advise(advice(0.1), SECOND);
        assert_eq!(standing.see(&health(0.05), SECOND), [Reported::Mode(Mode::Live)], "once says nothing");
        assert_eq!(standing.see(&health(0.05), 2 * SECOND), []);
        let reported = standing.see(&health(0.05), 3 * SECOND);
        assert!(
            matches!(reported[..], [Reported::Below { rank: Some(5), mode: Mode::Live, .. }]),
            "{reported:?}"
        );
        let after: Vec<Reported> =
            (4..12).flat_map(|second| standing.see(&health(0.2), second * SECOND)).collect();
        assert!(matches!(after[..], [Reported::Back { .. }]), "said once: {after:?}");
    }

    #[test]
    fn a_host_that_stumbles_now_and_then_is_no_straggler() {
        let mut standing = Standing::default();
        standing.advise(advice(0.1), SECOND);
        for second in 1..15 {
            let stumbles = second % 3 == 0;
            let reported = standing.see(&health(if stumbles { 0.0 } else { 0.2 }), second * SECOND);
            assert!(reported.iter().all(|reported| matches!(reported, Reported::Mode(_))), "{reported:?}");
        }
    }

    #[test]
    fn a_cohort_without_quorum_accuses_nobody() {
        let mut standing = Standing::default();
        standing.advise(Advice { quorum_met: false, ..advice(0.9) }, SECOND);
        for second in 1..20 {
            let reported = standing.see(&health(0.0), second * SECOND);
            assert!(reported.iter().all(|reported| matches!(reported, Reported::Mode(_))), "{reported:?}");
        }
    }

    #[test]
    fn without_the_fleet_the_last_threshold_holds_and_then_the_ranks_own_past() {
        let mut standing = Standing::default();
        assert_eq!(standing.see(&health(0.5), 0), [], "nothing to compare with, as before");
        standing.advise(advice(0.1), SECOND);
        let mut modes = Vec::new();
        for second in 1..2_000 {
            for reported in standing.see(&health(0.5), second * SECOND) {
                modes.push(reported);
            }
        }
        assert_eq!(
            modes,
            [Reported::Mode(Mode::Live), Reported::Mode(Mode::Cached), Reported::Mode(Mode::Own)]
        );
        let reported: Vec<Reported> =
            (2_000..2_004).flat_map(|second| standing.see(&health(0.3), second * SECOND)).collect();
        assert!(matches!(reported[..], [Reported::Below { mode: Mode::Own, .. }]), "{reported:?}");
    }
}
