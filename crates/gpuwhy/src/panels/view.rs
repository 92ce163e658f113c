//! A trace so far or at its end, as the panels read it.

use gpuwhy_agent::{Overview, Snapshot};
use gpuwhy_cause::{StepTree, Tallies};
use gpuwhy_model::units::{count, printable};
use gpuwhy_model::{CallClass, Coverage, Finding, OpId, OpInfo, Process};

#[derive(Debug, Clone, Copy)]
pub(crate) struct View<'a> {
    pub(crate) start_ns: u64,
    pub(crate) now_ns: u64,
    pub(crate) tallies: &'a Tallies,
    pub(crate) ops: &'a [OpInfo],
    pub(crate) processes: &'a [Process],
    pub(crate) overview: &'a Overview,
    /// Of the last minute while it runs; at the end they are told in full elsewhere.
    pub(crate) findings: &'a [Finding],
    pub(crate) steps: &'a [StepTree],
    /// What bounds the program, in a sentence.
    pub(crate) verdict: Option<&'a str>,
    /// What was not seen; said elsewhere at the end.
    pub(crate) lost: Option<&'a Coverage>,
    /// It still runs: what happens now matters more than the whole.
    pub(crate) live: bool,
}

impl<'a> View<'a> {
    pub(crate) fn of(
        snapshot: &'a Snapshot,
        ops: &'a [OpInfo],
        findings: &'a [Finding],
        live: bool,
    ) -> View<'a> {
        View {
            start_ns: snapshot.start_ns,
            now_ns: snapshot.now_ns,
            tallies: &snapshot.tallies,
            ops,
            processes: &snapshot.processes,
            overview: &snapshot.overview,
            findings,
            steps: &[],
            verdict: None,
            lost: live.then_some(&snapshot.coverage),
            live,
        }
    }

    pub(crate) fn with_steps(self, steps: &'a [StepTree], verdict: Option<&'a str>) -> View<'a> {
        View { steps, verdict, ..self }
    }

    pub(crate) fn wall_ns(&self) -> u64 {
        self.now_ns.saturating_sub(self.start_ns).max(1)
    }

    /// Share of the time in which calls of a class were watched, where that was not all the time.
    pub(crate) fn watched_pct(&self, class: Option<CallClass>) -> Option<f64> {
        let watched_ns = *self.overview.watched_ns.get(&class?)?;
        Some(100.0 * watched_ns as f64 / self.wall_ns() as f64)
    }

    /// A count of calls, never told as if it were of all the time: `8,415 in 9%`.
    pub(crate) fn calls(&self, class: Option<CallClass>, calls: u64) -> String {
        match self.watched_pct(class) {
            Some(pct) => format!("{} in {pct:.0}%", count(calls)),
            None => count(calls),
        }
    }

    pub(crate) fn op(&self, id: OpId) -> Option<&'a OpInfo> {
        self.ops.iter().find(|op| op.id == id)
    }

    pub(crate) fn process(&self, pid: u32) -> Option<&'a Process> {
        self.processes.iter().find(|process| process.pid == pid)
    }

    /// Until when a process was seen: now, if it lives.
    pub(crate) fn until_ns(&self, pid: u32) -> Option<u64> {
        self.process(pid).map(|process| process.end_ns.unwrap_or(self.now_ns).min(self.now_ns))
    }

    pub(crate) fn lives(&self, pid: u32) -> bool {
        self.process(pid).is_some_and(|process| process.end_ns.is_none())
    }

    /// Whether it is known to have ended, while the trace goes on.
    pub(crate) fn has_ended(&self, pid: u32) -> bool {
        self.live && self.process(pid).is_some_and(|process| process.end_ns.is_some())
    }

    /// Name, number and rank of a process, and whether it has ended.
    pub(crate) fn who(&self, pid: u32) -> String {
        let process = self.process(pid);
        let name = process.map_or_else(|| "pid".into(), |process| printable(&process.comm));
        let rank = process.and_then(|process| process.rank).map(|rank| format!(" rank {rank}"));
        let ended = if self.has_ended(pid) { " (ended)" } else { "" };
        format!("{name} {pid}{}{ended}", rank.unwrap_or_default())
    }
}
