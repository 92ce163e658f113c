//! Processes that have no work for the GPU: an idle server, an engine without requests. They wait for what comes from outside, until a
//! timeout or without an end; one that waits for its own data loader is woken by it and has something to do.

use gpuwhy_cause::Evidence;
use gpuwhy_model::units::{clock, duration};
use gpuwhy_model::{Part, Reason, Span, WokenBy};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A process that waited for something to do for most of the time it was looked at.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Quiet {
    pub pid: u32,
    pub process: String,
    /// When the thread made its last GPU call.
    pub last_call_ns: u64,
    /// How long it waited, and of how long.
    pub waited_ms: f64,
    pub of_ms: f64,
}

/// Of the time in which the process lived.
const MIN_SHARE: f64 = 0.6;
/// Shorter waits are a loop that polls.
const MIN_WAIT_NS: u64 = 200_000_000;
/// A trace that is shorter says nothing about what comes seldom.
const MIN_LIFE_NS: u64 = 2_000_000_000;

/// Longest first.
pub(crate) fn quiet(evidence: &Evidence, span: Span) -> Vec<Quiet> {
    // The thread that makes most of a process's calls speaks for it.
    let mut callers: BTreeMap<u32, (u32, u64)> = BTreeMap::new();
    for (tid, caller) in &evidence.activity.callers {
        let main = callers.entry(caller.pid).or_insert((*tid, caller.calls));
        if caller.calls > main.1 {
            *main = (*tid, caller.calls);
        }
    }
    let mut found: Vec<Quiet> =
        callers.into_iter().filter_map(|(pid, (tid, _))| of_process(evidence, span, pid, tid)).collect();
    found.sort_by(|a, b| b.waited_ms.total_cmp(&a.waited_ms).then(a.pid.cmp(&b.pid)));
    found
}

fn of_process(evidence: &Evidence, span: Span, pid: u32, tid: u32) -> Option<Quiet> {
    let process = evidence.processes.iter().rfind(|process| process.pid == pid)?;
    let last_call_ns = evidence.activity.callers.get(&tid)?.last_ns;
    let lived = Span {
        start_ns: process.start_ns.clamp(span.start_ns, span.end_ns),
        end_ns: process.end_ns.unwrap_or(span.end_ns).clamp(span.start_ns, span.end_ns),
    };
    let waited = waited_ns(evidence, tid, last_call_ns, lived);
    let is_long = lived.ns() >= MIN_LIFE_NS && waited as f64 >= MIN_SHARE * lived.ns() as f64;
    is_long.then(|| Quiet {
        pid,
        process: process.comm.clone(),
        last_call_ns,
        waited_ms: waited as f64 / 1e6,
        of_ms: lived.ns() as f64 / 1e6,
    })
}

/// How long a thread waited for what nobody in the trace sends: on sockets and polls, until a timeout, an interrupt, or the end.
fn waited_ns(evidence: &Evidence, tid: u32, last_call_ns: u64, lived: Span) -> u64 {
    let mut waited = 0;
    let mut seen_ns = last_call_ns.max(lived.start_ns);
    for wait in evidence.activity.waits.iter().filter(|wait| wait.tid == tid) {
        seen_ns = seen_ns.max(wait.end_ns);
        let is_for_outside = matches!(wait.part, Part::Blocked(Reason::Poll | Reason::Socket))
            && wait.woken_by != Some(WokenBy::Task)
            && wait.ns() >= MIN_WAIT_NS;
        if is_for_outside {
            let (start, end) = (wait.start_ns.max(lived.start_ns), wait.end_ns.min(lived.end_ns));
            waited += end.saturating_sub(start);
        }
    }
    // A wait that has not ended is not recorded: nothing else is either.
    let open = lived.end_ns.saturating_sub(seen_ns);
    waited + if open >= MIN_LIFE_NS { open } else { 0 }
}

impl Quiet {
    /// As `python3[42] waited for requests or data for 7.9s of 8.5s; it made its last GPU call at 03:00:00 UTC`.
    pub fn sentence(&self) -> String {
        let time = |ms: f64| duration((ms * 1e6) as u64);
        format!(
            "{}[{}] waited for requests or data for {} of {} ({:.0}%); it made its last GPU call at {}",
            self.process,
            self.pid,
            time(self.waited_ms),
            time(self.of_ms),
            100.0 * self.waited_ms / self.of_ms.max(f64::MIN_POSITIVE),
            clock(self.last_call_ns)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpuwhy_cause::activity::{Caller, Syscall, ThreadWait};
    use gpuwhy_model::{OpId, Process};

    const SECOND: u64 = 1_000_000_000;
    const SPAN: Span = Span { start_ns: 0, end_ns: 10 * SECOND };

    /// A process that makes calls in the first second and waits twice for four seconds.
    fn server(woken_by: Option<WokenBy>, reason: Reason) -> Evidence {
        let mut evidence = Evidence { span: SPAN, ..Evidence::default() };
        evidence.processes.push(Process { pid: 7, comm: "server".into(), ..Process::default() });
        let caller = Caller { pid: 7, calls: 60, first_ns: 0, last_ns: SECOND };
        evidence.activity.callers.insert(7, caller);
        evidence.activity.waits = [1, 5]
            .map(|start| ThreadWait {
                start_ns: start * SECOND,
                end_ns: (start + 4) * SECOND,
                pid: 7,
                tid: 7,
                part: Part::Blocked(reason),
                op: OpId::NONE,
                by_pid: 0,
                by_tid: 0,
                woken_by,
                syscall: Syscall::Other,
                object: None,
            })
            .to_vec();
        evidence
    }

    #[test]
    fn a_server_whose_polls_time_out_has_no_work() {
        let found = quiet(&server(Some(WokenBy::Timer), Reason::Poll), SPAN);
        assert_eq!(found.len(), 1);
        let message = found[0].sentence();
        assert!(
            message.starts_with("server[7] waited for requests or data for 8.00s of 10.0s (80%)"),
            "{message}"
        );
    }

    #[test]
    fn one_that_is_woken_by_its_worker_or_sleeps_by_itself_is_not_idle() {
        assert!(quiet(&server(Some(WokenBy::Task), Reason::Poll), SPAN).is_empty());
        assert!(quiet(&server(Some(WokenBy::Timer), Reason::Sleep), SPAN).is_empty());
    }

    #[test]
    fn a_wait_that_has_not_ended_counts() {
        let mut evidence = server(Some(WokenBy::Timer), Reason::Poll);
        evidence.activity.waits.clear();
        let found = quiet(&evidence, SPAN);
        assert_eq!(found.first().map(|quiet| quiet.waited_ms), Some(9_000.0));
    }
}
