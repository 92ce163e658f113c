//! Threads of the agent that panicked or did not return, and were started again, and the processes they did not return from:
//! the trace says so, as something of it is missing.

use gpuwhy_model::{ProbeState, ProbeStatus};
use gpuwhy_proc::Identity;
use std::collections::BTreeMap;

const PANICKED: &str = "it failed and was started again, {count} times until now: what it had in hand is missing; this is a fault of gpuwhy's own";
const STUCK: &str = "it did not return from what it read and was started again, {count} times until now: what it had in hand is missing";

/// What was said until now.
#[derive(Debug)]
pub(crate) struct Deaths {
    /// How often each had panicked when that was last said.
    message: BTreeMap<&'static str, u64>,
    /// The same of those that did not return.
    stuck: BTreeMap<&'static str, u64>,
    /// How many processes are not read any more.
    distrusted: usize,
}

impl Deaths {
    /// Those before now are not this trace's.
    pub(crate) fn from_now() -> Deaths {
        Deaths {
            message: gpuwhy_confine::deaths(),
            stuck: gpuwhy_confine::stuck(),
            distrusted: gpuwhy_proc::distrusted().len(),
        }
    }

    /// What is to be said now.
    pub(crate) fn news_of_now(&mut self, now_ns: u64) -> Vec<ProbeStatus> {
        let mut news = self.news(&gpuwhy_confine::deaths(), now_ns);
        news.extend(self.news_of_stuck(&gpuwhy_confine::stuck(), now_ns));
        news.extend(self.news_of_distrusted(&gpuwhy_proc::distrusted(), now_ns));
        news
    }

    /// Of each thread its first panic, then whenever there are twice as many. A process that knows how to make one panic
    /// does not fill the trace with that.
    fn news(&mut self, deaths: &BTreeMap<&'static str, u64>, now_ns: u64) -> Vec<ProbeStatus> {
        doubled(&mut self.message, deaths, PANICKED, now_ns)
    }

    fn news_of_stuck(&mut self, stuck: &BTreeMap<&'static str, u64>, now_ns: u64) -> Vec<ProbeStatus> {
        doubled(&mut self.stuck, stuck, STUCK, now_ns)
    }

    fn news_of_distrusted(&mut self, distrusted: &[Identity], now_ns: u64) -> Vec<ProbeStatus> {
        let new = distrusted.iter().skip(self.distrusted);
        self.distrusted = distrusted.len();
        let reason = "reading its memory or one of its files did not return: nothing of it is read any more, its stacks have no names";
        new.map(|process| status(format!("process {}", process.pid), reason.into(), now_ns)).collect()
    }
}

fn doubled(
    message: &mut BTreeMap<&'static str, u64>,
    counts: &BTreeMap<&'static str, u64>,
    reason: &str,
    now_ns: u64,
) -> Vec<ProbeStatus> {
    let mut news = Vec::new();
    for (thread, count) in counts {
        let message = message.entry(thread).or_default();
        if *count <= *message || *count < 2 * *message {
            continue;
        }
        *message = *count;
        news.push(status((*thread).into(), reason.replace("{count}", &count.to_string()), now_ns));
    }
    news
}

fn status(target: String, reason: String, now_ns: u64) -> ProbeStatus {
    ProbeStatus {
        probe: "agent".into(),
        target,
        file: String::new(),
        state: ProbeState::Degraded,
        flavour: String::new(),
        since_ns: now_ns,
        reason,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_is_said_and_then_those_that_double_it() {
        let message = BTreeMap::from([("gpuwhy-old", 4)]);
        let mut deaths = Deaths { message, stuck: BTreeMap::new(), distrusted: 0 };
        let mut message = |count: u64| {
            let news = deaths.news(&BTreeMap::from([("gpuwhy-old", 4), ("gpuwhy-names", count)]), 7);
            news.into_iter().map(|status| (status.target, status.since_ns)).collect::<Vec<_>>()
        };
        let one = [("gpuwhy-names".to_string(), 7)];
        assert_eq!((message(0).len(), message(1)), (0, one.to_vec()));
        assert_eq!((message(1).len(), message(2)), (0, one.to_vec()));
        assert_eq!((message(3).len(), message(9)), (0, one.to_vec()));
        let status = deaths.news(&BTreeMap::from([("gpuwhy-names", 18)]), 7).remove(0);
        assert!(status.reason.starts_with("it failed and was started again, 18 times"), "{status:?}");
    }

    #[test]
    fn what_did_not_return_is_said_of_the_thread_and_of_the_process() {
        let mut deaths = Deaths { message: BTreeMap::new(), stuck: BTreeMap::new(), distrusted: 1 };
        let stuck = deaths.news_of_stuck(&BTreeMap::from([("gpuwhy-reader", 1)]), 7).remove(0);
        assert!(stuck.reason.starts_with("it did not return from what it read"), "{stuck:?}");
        let processes = [Identity::of(1), Identity::of(std::process::id())];
        let message = deaths.news_of_distrusted(&processes, 7);
        assert_eq!(message.len(), 1, "the first one was another trace's");
        assert_eq!(message[0].target, format!("process {}", std::process::id()));
        assert!(deaths.news_of_distrusted(&processes, 8).is_empty());
    }
}
