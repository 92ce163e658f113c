//! What is known of one rank.

use super::Signal;
use super::meter::Meter;
use super::places::Places;
use super::series::{Series, VALUES};
use super::signal::Use;
use std::collections::BTreeMap;

/// Signals that only explain need no long memory.
const FEW: usize = 8;
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
    pub meter: Meter,
    pub places: Places,
    /// Its own time in the past, where no peers do the same work.
    pub own_past: Option<f64>,
    pub named: Option<Named>,
}

impl Member {
    pub(super) fn put(&mut self, signal: Signal, value: f64, seen_ns: u64) {
        let most = match signal.facts().used {
            Use::Accuses | Use::Regresses => VALUES,
            Use::Explains | Use::Told => FEW,
        };
        self.signals.entry(signal).or_default().push(seen_ns, value, most);
        if signal == Signal::OwnSeconds {
            self.learn_past(seen_ns);
        }
    }

    /// With each new value: the past follows slowly, and not at all while the rank is slower than it was.
    fn learn_past(&mut self, now_ns: u64) {
        const FOLLOWS: f64 = 0.002;
        const SLOWER: f64 = 1.02;
        let Some(series) = self.signals.get(&Signal::OwnSeconds).filter(|series| series.len() >= WARM) else {
            return;
        };
        let Some(recent) = series.recent(now_ns, 0) else { return };
        match &mut self.own_past {
            None => {
                let mut all: Vec<f64> = series.newest(now_ns, 0).collect();
                self.own_past = crate::robust::median(&mut all);
            }
            Some(past) if recent <= *past * SLOWER => *past += FOLLOWS * (recent - *past),
            Some(_) => {}
        }
    }
}
