//! A process's memory of one kind on one GPU: now, and a minute ago.

use gpuwhy_model::MemoryUse;
use std::collections::VecDeque;

/// Memory that still grows a minute later is no warming up.
const GROWTH_NS: u64 = 60_000_000_000;
/// How far apart the amounts remembered are, at least.
const MARK_EVERY_NS: u64 = 5_000_000_000;

#[derive(Debug, Clone)]
pub struct MemorySum {
    pub last: MemoryUse,
    /// When it was how much, oldest first; only the first is older than what growth is counted from.
    marks: VecDeque<(u64, u64)>,
}

impl MemorySum {
    pub(super) fn new(memory: &MemoryUse) -> Self {
        MemorySum { last: memory.clone(), marks: VecDeque::from([(memory.time_ns, memory.live_bytes)]) }
    }

    pub(super) fn take(&mut self, memory: &MemoryUse) {
        if self.marks.back().is_none_or(|(time_ns, _)| time_ns + MARK_EVERY_NS <= memory.time_ns) {
            self.marks.push_back((memory.time_ns, memory.live_bytes));
        }
        while self.marks.get(1).is_some_and(|(time_ns, _)| time_ns + GROWTH_NS <= memory.time_ns) {
            self.marks.pop_front();
        }
        self.last = memory.clone();
    }

    /// By how much it grew, and in how long: a minute, or as long as it is known.
    pub fn growth(&self, now_ns: u64) -> (i64, u64) {
        let since_ns = now_ns.saturating_sub(GROWTH_NS);
        if self.last.time_ns <= since_ns {
            return (0, GROWTH_NS);
        }
        let before = self.marks.iter().rev().find(|(time_ns, _)| *time_ns <= since_ns);
        match before.or(self.marks.front()) {
            Some((time_ns, bytes)) => {
                let took_ns = now_ns.saturating_sub((*time_ns).max(since_ns));
                (self.last.live_bytes as i64 - *bytes as i64, took_ns)
            }
            None => (0, GROWTH_NS),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpuwhy_model::MemoryKind;

    const S: u64 = 1_000_000_000;

    #[test]
    fn growth_is_of_the_last_minute() {
        let at = |time_s: u64, live_bytes| MemoryUse {
            time_ns: time_s * S,
            pid: 1,
            gpu: None,
            kind: MemoryKind::Device,
            live_bytes,
            peak_bytes: 0,
            live_count: 0,
            allocated_bytes: 0,
            freed_bytes: 0,
            failures: 0,
        };
        let mut sum = MemorySum::new(&at(100, 50));
        assert_eq!(sum.growth(110 * S), (0, 10 * S));
        sum.take(&at(101, 80));
        assert_eq!(sum.growth(110 * S), (30, 10 * S));
        for second in 102..400 {
            sum.take(&at(second, 80 + second));
        }
        let (bytes, took_ns) = sum.growth(400 * S);
        assert!((59..=64).contains(&bytes), "{bytes}");
        assert_eq!(took_ns, 60 * S);
        assert!(sum.marks.len() < 20);
        // Nothing has changed for long.
        assert_eq!(sum.growth(500 * S), (0, 60 * S));
        sum.take(&at(501, 10));
        assert!(sum.growth(501 * S).0 < 0);
    }
}
