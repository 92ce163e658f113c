//! How many functions and tracepoints are in which state, as of their latest word.

use gpuwhy_model::{ProbeState, ProbeStatus};
use std::collections::{BTreeMap, HashMap};

#[derive(Debug, Default)]
pub(crate) struct ProbeStates {
    /// By probe, target and file.
    states: HashMap<(String, String, String), ProbeState>,
}

impl ProbeStates {
    pub(crate) fn take(&mut self, status: &ProbeStatus) {
        // Those are about processes, of which there is no end, and all functions of a file in one.
        if status.probe != "governor" && status.target != "*" {
            let key = (status.probe.clone(), status.target.clone(), status.file.clone());
            self.states.insert(key, status.state);
        }
    }

    pub(crate) fn counts(&self) -> Vec<(String, ProbeState, u64)> {
        let mut counts: BTreeMap<(&str, &str), (ProbeState, u64)> = BTreeMap::new();
        for ((probe, _, _), state) in &self.states {
            counts.entry((probe, state.name())).or_insert((*state, 0)).1 += 1;
        }
        counts.into_iter().map(|((probe, _), (state, count))| (probe.to_string(), state, count)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_word_of_each_counts() {
        let status = |probe: &str, target: &str, state| ProbeStatus {
            probe: probe.into(),
            target: target.into(),
            file: "lib.so".into(),
            state,
            flavour: String::new(),
            since_ns: 0,
            reason: String::new(),
        };
        let mut states = ProbeStates::default();
        states.take(&status("cuda", "a", ProbeState::Attached));
        states.take(&status("cuda", "b", ProbeState::Attached));
        states.take(&status("cuda", "b", ProbeState::Refused));
        states.take(&status("governor", "process 7", ProbeState::Degraded));
        let expected =
            [("cuda".to_string(), ProbeState::Attached, 1), ("cuda".to_string(), ProbeState::Refused, 1)];
        assert_eq!(states.counts(), expected);
    }
}
