//! Steps of two traces side by side: which process's step takes longer, whether that is beyond what steps vary by themselves, and
//! which part of it grew.

use gpuwhy_cause::{PathPart, StepNoise, StepTree};
use gpuwhy_model::units::duration;
use serde::Serialize;

/// The steps of a process that both traces have.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StepChange {
    pub process: String,
    pub rank: Option<i32>,
    pub a: StepSide,
    pub b: StepSide,
    /// In percent of `a`.
    pub median_change_pct: f64,
    pub mean_change_pct: f64,
    /// The medians, or the means, are further apart than the steps of each trace vary.
    pub beyond_noise: bool,
    /// Steps were too few, or not each is recorded: what they vary by is not known.
    pub unjudged: bool,
    /// Parts of a step that changed by most, in sentences.
    pub parts: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StepSide {
    pub pid: u32,
    pub steps: u64,
    pub median_ms: f64,
    pub mean_ms: f64,
    pub p99_ms: f64,
    pub noise: Option<StepNoise>,
}

impl StepChange {
    /// By how many percent a step is slower for certain: that of the median or of the mean, whichever is beyond noise and more.
    /// Nothing where neither is.
    pub fn slower_pct(&self) -> Option<f64> {
        let (a, b) = (self.a.noise?, self.b.noise?);
        let median = (a.median_ms[1] < b.median_ms[0]).then_some(self.median_change_pct);
        let mean = (a.mean_ms[1] < b.mean_ms[0]).then_some(self.mean_change_pct);
        median.into_iter().chain(mean).max_by(f64::total_cmp)
    }

    /// As `python3 (rank 2)`.
    pub fn name(&self) -> String {
        let rank = self.rank.map_or_else(String::new, |rank| format!(" (rank {rank})"));
        format!("{}{rank}", self.process)
    }
}

/// Of all processes that have a loop with steps in both.
pub(crate) fn changes(a: &[StepTree], b: &[StepTree]) -> Vec<StepChange> {
    let is_loop = |tree: &&StepTree| tree.phase == "loop" && tree.found_by.is_some();
    let mut changes: Vec<StepChange> = Vec::new();
    for left in a.iter().filter(is_loop) {
        let is_same = |tree: &&StepTree| tree.process == left.process && tree.rank == left.rank;
        // Of several of one name the busiest is meant on both sides.
        let longest = |trees: &[StepTree]| {
            let same = trees.iter().filter(is_loop).filter(is_same);
            same.max_by_key(|tree| (tree.window.ns(), std::cmp::Reverse(tree.pid))).cloned()
        };
        let is_known = changes
            .iter()
            .any(|known| Some(&known.process) == left.process.as_ref() && known.rank == left.rank);
        if let (Some(left), Some(right), false) = (longest(a), longest(b), is_known) {
            changes.push(change(&left, &right));
        }
    }
    changes.sort_by(|x, y| y.median_change_pct.total_cmp(&x.median_change_pct));
    changes
}

fn change(a: &StepTree, b: &StepTree) -> StepChange {
    let pct = |a: f64, b: f64| 100.0 * (b - a) / a.max(f64::MIN_POSITIVE);
    let apart = |a: [f64; 2], b: [f64; 2]| a[1] < b[0] || b[1] < a[0];
    let noise = a.noise.zip(b.noise);
    StepChange {
        process: a.process.clone().unwrap_or_else(|| "process".into()),
        rank: a.rank,
        median_change_pct: pct(a.median_ms, b.median_ms),
        mean_change_pct: pct(a.mean_ms, b.mean_ms),
        beyond_noise: noise
            .is_some_and(|(a, b)| apart(a.median_ms, b.median_ms) || apart(a.mean_ms, b.mean_ms)),
        unjudged: noise.is_none(),
        parts: parts(&a.path, &b.path),
        a: side(a),
        b: side(b),
    }
}

fn side(tree: &StepTree) -> StepSide {
    StepSide {
        pid: tree.pid,
        steps: tree.count,
        median_ms: tree.median_ms,
        mean_ms: tree.mean_ms,
        p99_ms: tree.p99_ms,
        noise: tree.noise,
    }
}

/// Those that changed by most: `asleep in fetch: 30.1ms of a step, 0ns before`.
fn parts(a: &[PathPart], b: &[PathPart]) -> Vec<String> {
    const MAX_PARTS: usize = 3;
    /// Of a step.
    const MIN_MS: f64 = 0.02;
    let ms = |parts: &[PathPart], message: &str| {
        parts.iter().filter(|part| part.message == message).map(|part| part.ms).sum::<f64>()
    };
    let mut messages: Vec<&str> = a.iter().chain(b).map(|part| part.message.as_str()).collect();
    messages.sort_unstable();
    messages.dedup();
    let mut changes: Vec<(f64, String)> = messages
        .into_iter()
        .map(|message| (ms(a, message), ms(b, message), message))
        .filter(|(before, now, _)| (now - before).abs() >= MIN_MS)
        .map(|(before, now, message)| {
            let time = |ms: f64| duration((ms * 1e6) as u64);
            (now - before, format!("{message}: {} of a step, {} before", time(now), time(before)))
        })
        .collect();
    changes.sort_by(|x, y| y.0.abs().total_cmp(&x.0.abs()));
    changes.into_iter().take(MAX_PARTS).map(|(_, sentence)| sentence).collect()
}
