//! Time in which a thread that drives a GPU waits of its own accord between calls: for data, for requests, asleep.

use super::Rule;
use super::lost_between::{place, say_what_was_waited_for};
use super::retransmits;
use crate::case::Case;
use crate::draft::{Draft, at, cause_in_words, seconds};
use crate::fixes::fixes;
use crate::severity::percent;
use crate::thread_ledger::{ThreadLedger, is_idle};
use gpuwhy_model::{Cause, Severity};

pub(super) const RULE: Rule = Rule {
    name: "idle_between",
    about: "the launching thread waits between calls for data, requests, a queue or a timer, and its GPU has no work meanwhile",
    causes: &[Cause::SelfSleep, Cause::NetWait, Cause::LockFutex, Cause::IoFile],
    threshold: "20% of its time: below it the GPU's queue hides the wait. Low, as a server without requests is well; for a training \
                loop it is the data loader",
    refuted_by: "the GPU busy all the same: `SELECT * FROM gpu_time` with `busy_lower_ns` near `window_ns`",
    find,
};

const LEAST_PCT: f64 = 20.0;

fn find(case: &Case<'_>) -> Vec<Draft> {
    let mut pids: Vec<u32> = case.threads.iter().map(|thread| thread.pid).collect();
    pids.dedup();
    pids.into_iter().filter_map(|pid| draft(case, case.main_thread(pid)?)).collect()
}

fn draft(case: &Case<'_>, thread: &ThreadLedger) -> Option<Draft> {
    // What is not explained is nobody's choice.
    let mut bills = thread.waits.only(|cause| is_idle(cause) && cause.explains());
    // A peer that the network keeps is told of by what was sent again.
    bills.take(Cause::NetWait, retransmits::lost_ns(case, thread.pid));
    let wall = thread.span.ns();
    // What is told by what kept the other one is told elsewhere.
    let idle = bills.total_ns().saturating_sub(thread.through_ns);
    if percent(idle, wall) < LEAST_PCT {
        return None;
    }
    let main = bills.main()?;
    say_what_was_waited_for(case, thread, &mut bills);
    let place = place(case, thread, main);
    let at = at(&place);
    Some(Draft {
        severity: Some(Severity::Low),
        title: format!(
            "{} does not launch for {} ({:.0}% of its time){at}: {}",
            case.name(thread.pid),
            seconds(idle),
            percent(idle, wall),
            cause_in_words(case, &bills, main)
        ),
        pid: Some(thread.pid),
        window: Some(thread.span),
        fixes: fixes(case, thread.pid, &bills),
        sql: format!(
            "SELECT w.reason, f.file, f.line, f.function, count(*) AS seen FROM wait_samples w JOIN frames f USING (stack_id) \
             WHERE w.pid = {} AND f.depth = 0 GROUP BY 1, 2, 3, 4 ORDER BY seen DESC",
            thread.pid
        ),
        bills,
        place,
        ..Draft::default()
    })
}
