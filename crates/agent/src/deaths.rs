//! Threads of the agent that panicked and were started again: the trace says so, as something of it is missing.

use gpuwhy_model::{ProbeState, ProbeStatus};
use std::collections::BTreeMap;

/// How often each had panicked when that was last said.
#[derive(Debug)]
pub(crate) struct Deaths {
    said: BTreeMap<&'static str, u64>,
}

impl Deaths {
    /// Those before now are not this trace's.
    pub(crate) fn from_now() -> Deaths {
        Deaths { said: gpuwhy_confine::deaths() }
    }

    /// What is to be said: of each thread its first panic, then whenever there are twice as many. A process that knows how
    /// to make one panic does not fill the trace with that.
    pub(crate) fn news(&mut self, deaths: &BTreeMap<&'static str, u64>, now_ns: u64) -> Vec<ProbeStatus> {
        let mut news = Vec::new();
        for (thread, count) in deaths {
            let said = self.said.entry(thread).or_default();
            if *count <= *said || *count < 2 * *said {
                continue;
            }
            *said = *count;
            news.push(ProbeStatus {
                probe: "agent".into(),
                target: (*thread).into(),
                file: String::new(),
                state: ProbeState::Degraded,
                flavour: String::new(),
                since_ns: now_ns,
                reason: format!(
                    "it failed and was started again, {count} times until now: what it had in hand is missing; this is a fault of gpuwhy's own"
                ),
            });
        }
        news
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_is_said_and_then_those_that_double_it() {
        let mut deaths = Deaths { said: BTreeMap::from([("gpuwhy-old", 4)]) };
        let mut said = |count: u64| {
            let news = deaths.news(&BTreeMap::from([("gpuwhy-old", 4), ("gpuwhy-names", count)]), 7);
            news.into_iter().map(|status| (status.target, status.since_ns)).collect::<Vec<_>>()
        };
        let one = [("gpuwhy-names".to_string(), 7)];
        assert_eq!((said(0).len(), said(1)), (0, one.to_vec()));
        assert_eq!((said(1).len(), said(2)), (0, one.to_vec()));
        assert_eq!((said(3).len(), said(9)), (0, one.to_vec()));
        let status = deaths.news(&BTreeMap::from([("gpuwhy-names", 18)]), 7).remove(0);
        assert!(status.reason.starts_with("it failed and was started again, 18 times"), "{status:?}");
    }
}
