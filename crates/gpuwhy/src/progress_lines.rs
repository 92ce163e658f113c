//! How far a trace is, a line now and then, for where there is no screen: a pipe, a file, a CI log.

use crate::explanation::coverage::by_place;
use crate::explanation::first_screen::verdict;
use crate::panels::counted;
use crate::summary::Detail;
use gpuwhy_agent::Snapshot;
use gpuwhy_model::units::{count, duration};
use gpuwhy_query::Explained;
use std::io::IsTerminal;
use std::time::{Duration, Instant};

const EVERY: Duration = Duration::from_secs(10);
/// Beside a command's own lines.
const BESIDE_COMMAND: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub(crate) struct ProgressLines {
    every: Option<Duration>,
    detail: Detail,
    next: Instant,
    /// Of the last minute.
    verdict: Option<String>,
}

impl ProgressLines {
    /// None on a terminal that is a command's, and none where they are not wanted.
    pub(crate) fn new(command: bool, detail: Detail) -> ProgressLines {
        let every = match (detail, command) {
            (Detail::Quiet, _) => None,
            (_, true) if std::io::stderr().is_terminal() => None,
            (_, true) => Some(BESIDE_COMMAND),
            (_, false) => Some(EVERY),
        };
        ProgressLines { every, detail, next: Instant::now() + every.unwrap_or(EVERY), verdict: None }
    }

    /// How much is told at the end.
    pub(crate) fn detail(&self) -> Detail {
        self.detail
    }

    pub(crate) fn is_on(&self) -> bool {
        self.every.is_some()
    }

    pub(crate) fn take(&mut self, explained: &Explained) {
        self.verdict = Some(verdict(explained));
    }

    /// One line, where it is time for it.
    pub(crate) fn line(&mut self, snapshot: &Snapshot) -> Option<String> {
        let every = self.every.filter(|_| Instant::now() >= self.next)?;
        self.next = Instant::now() + every;
        Some(self.in_words(snapshot))
    }

    fn in_words(&self, snapshot: &Snapshot) -> String {
        let living = snapshot.processes.iter().filter(|process| process.end_ns.is_none()).count() as u64;
        let lost = match snapshot.coverage.lost {
            0 => "nothing lost".to_string(),
            lost => format!("{} records LOST{}", count(lost), by_place(&snapshot.coverage.lost_by)),
        };
        let calls = snapshot.tallies.calls();
        let so_far = format!(
            "{}: {}, {}, {lost}",
            duration(snapshot.now_ns.saturating_sub(snapshot.start_ns)),
            counted(living, "process", "processes"),
            counted(calls, "GPU call", "GPU calls"),
        );
        match &self.verdict {
            Some(verdict) if calls > 0 => format!("{so_far}. {verdict}"),
            _ => so_far,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpuwhy_agent::{Overview, OwnCost};
    use gpuwhy_cause::Tallies;
    use gpuwhy_host::Load;
    use gpuwhy_model::{Coverage, LossCount};

    fn snapshot(coverage: Coverage) -> Snapshot {
        Snapshot {
            now_ns: 9_000_000_000,
            start_ns: 1_000_000_000,
            tallies: Tallies::default(),
            processes: Vec::new(),
            processes_seen: 0,
            coverage,
            load: Load::default(),
            own: OwnCost::default(),
            records: 0,
            libraries: 0,
            probes: Vec::new(),
            overview: Overview::default(),
        }
    }

    #[test]
    fn a_line_says_where_and_why_records_were_lost() {
        let lines = ProgressLines::new(false, Detail::Answer);
        let line = lines.in_words(&snapshot(Coverage::default()));
        assert_eq!(line, "8.00s: 0 processes, 0 GPU calls, nothing lost");
        let place = |probe: &str, count| LossCount { probe: probe.into(), reason: "ring full".into(), count };
        let lost_by = vec![place("calls", 1_200), place("sched", 34)];
        let line = lines.in_words(&snapshot(Coverage { lost: 1_234, lost_by, ..Coverage::default() }));
        assert!(
            line.ends_with(", 1,234 records LOST: 1,200 calls (ring full), 34 sched (ring full)"),
            "{line}"
        );
    }
}
