//! What is known of one rank.

use super::Signal;
use super::losses::SURE_AFTER;
use super::meter::Meter;
use super::places::Places;
use super::series::{Series, VALUES};
use super::signal::Use;
use crate::robust::median;
use std::collections::BTreeMap;

/// Signals that only explain need no long memory.
const FEW: usize = 8;
/// What is told of now is that of so many.
const RECENT: usize = 5;
/// Values before a rank's own past counts.
const WARM: usize = 30;

#[derive(Debug, Clone)]
pub(super) struct Named {
    pub since_ns: u64,
    pub last_ns: u64,
    pub verdict: super::Verdict,
}

#[derive(Debug, Clone, Default)]
pub(super) struct Member {
    pub node: String,
    pub seen_ns: u64,
    pub signals: BTreeMap<Signal, Series>,
    /// When it told something, whatever: nobody tells a cause that took no time.
    pub heard: Series,
    pub meter: Meter,
    pub places: Places,
    /// Its own time in the past, where no peers do the same work.
    pub own_past: Option<f64>,
    pub named: Option<Named>,
    /// What it loses more time to than its peers, and since which stretch.
    pub losing: BTreeMap<Signal, u64>,
}

/// Values of a signal that are kept.
fn most(signal: Signal) -> usize {
    match signal.facts().used {
        Use::Accuses | Use::Regresses => VALUES,
        Use::Explains | Use::Reported => FEW,
    }
}

impl Member {
    /// What it told of a signal, the newest first. Whoever does not tell a cause lost nothing to it.
    pub(super) fn newest(&self, signal: Signal, now_ns: u64, stale_ns: u64) -> Vec<f64> {
        let series = self.signals.get(&signal);
        match signal {
            Signal::Blame(_) => {
                let (none, kept) = (Series::default(), most(signal));
                series.unwrap_or(&none).at_each(&self.heard, now_ns, stale_ns).take(kept).collect()
            }
            _ => series.map_or_else(Vec::new, |series| series.newest(now_ns, stale_ns).collect()),
        }
    }

    /// Of the newest few: what is usual, and of a cause, what it took in all, be it now and then.
    pub(super) fn recent(&self, signal: Signal, now_ns: u64, stale_ns: u64) -> Option<f64> {
        let mut newest = self.newest(signal, now_ns, stale_ns);
        newest.truncate(RECENT);
        match signal {
            Signal::Blame(_) if newest.is_empty() => None,
            Signal::Blame(_) => Some(newest.iter().sum::<f64>() / newest.len() as f64),
            _ => median(&mut newest),
        }
    }

    pub(super) fn put(&mut self, signal: Signal, value: f64, seen_ns: u64) {
        self.signals.entry(signal).or_default().push(seen_ns, value, most(signal));
        if !self.heard.has(seen_ns) {
            self.heard.push(seen_ns, 0.0, VALUES);
        }
        if signal == Signal::OwnSeconds {
            self.learn_past(seen_ns);
        }
    }

    /// Since it loses more time to something than its peers; where that is new, since it began to be seen.
    pub(super) fn stretches_losing(&self, signal: Signal) -> usize {
        self.losing.get(&signal).map_or(0, |since| self.meter.end().saturating_sub(*since) as usize)
    }

    pub(super) fn note_losses(&mut self, now: Vec<Signal>) {
        self.losing.retain(|signal, _| now.contains(signal));
        for signal in now {
            // It was there for a few pushes before it was sure.
            let since = self.meter.end().saturating_sub(SURE_AFTER as u64);
            self.losing.entry(signal).or_insert(since);
        }
    }

    /// With each new value: the past follows slowly, and not at all while the rank is slower than it was.
    fn learn_past(&mut self, now_ns: u64) {
        const FOLLOWS: f64 = 0.002;
        const SLOWER: f64 = 1.02;
        let Some(series) = self.signals.get(&Signal::OwnSeconds).filter(|series| series.len() >= WARM) else {
            return;
        };
        let Some(recent) = self.recent(Signal::OwnSeconds, now_ns, 0) else { return };
        match &mut self.own_past {
            None => {
                let mut all: Vec<f64> = series.newest(now_ns, 0).collect();
                self.own_past = median(&mut all);
            }
            Some(past) if recent <= *past * SLOWER => *past += FOLLOWS * (recent - *past),
            Some(_) => {}
        }
    }
}
