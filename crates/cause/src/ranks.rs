//! One finding for one problem of a job: a late rank with what keeps it, and nothing of those who wait for it; a hang, and
//! nothing of what the ranks did before it as if that were as bad.

use crate::case::Case;
use gpuwhy_model::{Cause, Finding, Severity};
use std::collections::BTreeSet;

const OF_PATH: &str = "critical_path";

/// Leaves of the findings about the ranks of a job what is a problem of its own.
pub(crate) fn join_ranks(case: &Case<'_>, findings: &mut Vec<Finding>) {
    let of = |class: Cause| {
        let found = findings.iter().filter(move |finding| finding.class() == Some(class));
        found.map(|finding| (finding.pid, finding.rank)).collect::<Vec<_>>()
    };
    let (late, hung) = (of(Cause::RankStraggler), of(Cause::RankHang));
    for (pid, rank) in &hung {
        let members = members(case, *pid, *rank);
        for finding in findings.iter_mut().filter(|finding| is_of_path(finding, &members)) {
            hide(finding, "the job hangs: this was before".into());
        }
    }
    for (pid, rank) in late {
        let peers: BTreeSet<u32> =
            members(case, pid, rank).into_iter().filter(|member| Some(*member) != pid).collect();
        let own = pid.and_then(|pid| holds(case, pid)).map(|(class, _)| class);
        findings.retain(|finding| {
            let is_why = finding.rule == OF_PATH && finding.pid == pid && finding.class() == own;
            // Who waits for the late rank says nothing new.
            let waits_for_it = is_of_calls_or_path(finding, &peers) && is_wait(finding.class());
            is_of_start(finding) || !(is_why || waits_for_it)
        });
        for finding in findings.iter_mut().filter(|finding| is_of_path(finding, &peers)) {
            let rank = rank.map_or_else(|| "another rank".into(), |rank| format!("rank {rank}"));
            hide(finding, format!("hidden: {rank} comes later still, and all wait for it"));
        }
    }
}

/// What keeps a rank longer than its peers: of its own path the class, and in which part of it. Waits for peers and for the GPU
/// are no reason.
pub(crate) fn holds<'a>(
    case: &'a Case<'_>,
    pid: u32,
) -> Option<(Cause, (&'a crate::path::Key, &'a crate::path::Part))> {
    let path = case.paths.iter().find(|path| path.pid == pid)?;
    let members = members(case, Some(pid), None);
    let peers: Vec<_> =
        case.paths.iter().filter(|other| other.pid != pid && members.contains(&other.pid)).collect();
    let of_peer = |class: Cause, function: Option<&(String, String)>| -> u64 {
        let of_one = |path: &&crate::path::ProcessPath| -> u64 {
            let same = path
                .loop_parts
                .iter()
                .filter(|(key, _)| key.class == class && key.function.as_ref() == function);
            same.map(|(_, part)| part.ns).sum()
        };
        let mut all: Vec<u64> = peers.iter().map(of_one).collect();
        all.sort_unstable();
        all.get(all.len() / 2).copied().unwrap_or(0)
    };
    let is_own = |class: Cause| !matches!(class, Cause::GpuWait | Cause::NetWait | Cause::LaunchBound);
    let own = path.loop_parts.iter().filter(|(key, _)| is_own(key.class));
    let more = |(key, part): &(&crate::path::Key, &crate::path::Part)| {
        part.ns.saturating_sub(of_peer(key.class, key.function.as_ref()))
    };
    let (key, part) = own.max_by_key(more)?;
    Some((key.class, (key, part)))
}

/// Processes of the communicators that a rank is in.
fn members(case: &Case<'_>, pid: Option<u32>, rank: Option<i32>) -> BTreeSet<u32> {
    let arrivals = &case.evidence.collectives;
    let is_it = |arrival_pid: u32, arrival_rank: i32| match pid {
        Some(pid) => arrival_pid == pid,
        // One that was never seen: all communicators that have such a rank.
        None => rank.is_none_or(|rank| arrival_rank != rank),
    };
    let comms: BTreeSet<&str> = arrivals
        .iter()
        .filter(|arrival| is_it(arrival.pid, arrival.rank))
        .map(|arrival| arrival.comm.as_str())
        .collect();
    let of_them = arrivals.iter().filter(|arrival| comms.contains(arrival.comm.as_str()));
    of_them.map(|arrival| arrival.pid).collect()
}

fn hide(finding: &mut Finding, why: String) {
    finding.severity = Severity::Low;
    finding.saves_ms_per_step = finding.saves_ms_per_step.map(|_| 0.0);
    finding.saves_ms_interval = finding.saves_ms_interval.map(|_| [0.0; 2]);
    if let Some(cause) = finding.causes.first_mut() {
        cause.evidence.insert(0, why);
    }
}

fn is_wait(class: Option<Cause>) -> bool {
    matches!(class, Some(Cause::GpuWait | Cause::NetWait | Cause::LockFutex))
}

fn is_of_path(finding: &Finding, pids: &BTreeSet<u32>) -> bool {
    finding.rule == OF_PATH && !is_of_start(finding) && finding.pid.is_some_and(|pid| pids.contains(&pid))
}

/// What a rank did before its loop keeps no peer in it.
fn is_of_start(finding: &Finding) -> bool {
    finding.phase.as_deref() == Some("start")
}

fn is_of_calls_or_path(finding: &Finding, pids: &BTreeSet<u32>) -> bool {
    (finding.rule == OF_PATH || crate::twins::OF_CALLS.contains(&finding.rule.as_str()))
        && finding.pid.is_some_and(|pid| pids.contains(&pid))
}

#[cfg(test)]
mod tests {
    use crate::activity::{Activity, Beat, BeatKind, Caller, Syscall, ThreadName, ThreadSample, ThreadWait};
    use crate::evidence::{Arrival, Evidence};
    use crate::{Explanation, explain};
    use gpuwhy_model::{Cause, Frame, FrameKind, OpId, Part, Process, Reason, Severity, Span};

    const MS: u64 = 1_000_000;
    const STEPS: u64 = 60;
    const STEP_MS: u64 = 30;

    fn wait(pid: u32, start_ms: u64, ms: u64, reason: Reason) -> ThreadWait {
        ThreadWait {
            start_ns: start_ms * MS,
            end_ns: (start_ms + ms) * MS,
            pid,
            tid: pid,
            part: Part::Blocked(reason),
            op: OpId::NONE,
            by_pid: 0,
            by_tid: 0,
            woken_by: None,
            syscall: Syscall::Other,
            object: None,
        }
    }

    fn arrival(pid: u32, step: u64, start_ms: u64) -> Arrival {
        Arrival {
            comm: "0x1".into(),
            seq: step,
            rank: pid as i32 - 10,
            nranks: 2,
            pid,
            op: "ncclAllReduce".into(),
            start_ns: start_ms * MS,
            duration_ns: MS,
            count: Some(1),
            datatype: None,
            reduce_op: None,
            bytes: None,
            stack_id: None,
        }
    }

    /// Two ranks: both sleep 5 ms of each step for their data; rank 1 sleeps 15 ms more at `late.py:7`, and rank 0 waits for it.
    fn job() -> Evidence {
        let mut evidence =
            Evidence { span: Span { start_ns: 0, end_ns: STEPS * STEP_MS * MS }, ..Evidence::default() };
        let caller = |pid| Caller { pid, calls: 1_000, first_ns: 0, last_ns: STEPS * STEP_MS * MS };
        let mut activity =
            Activity { callers: [10, 11].map(|pid| (pid, caller(pid))).into(), ..Activity::default() };
        for pid in [10, 11] {
            activity.threads.insert(pid, ThreadName { pid, comm: "python3".into() });
            evidence.processes.push(Process {
                pid,
                comm: "python3".into(),
                rank: Some(pid as i32 - 10),
                ..Process::default()
            });
        }
        for step in 0..STEPS {
            let at = step * STEP_MS;
            activity.waits.extend([10, 11].map(|pid| wait(pid, at, 5, Reason::Sleep)));
            activity.waits.push(wait(11, at + 8, 15, Reason::Sleep));
            activity.waits.push(wait(10, at + 8, 15, Reason::Socket));
            activity.samples.push(ThreadSample {
                time_ns: (at + 10) * MS,
                pid: 11,
                tid: 11,
                part: Part::Blocked(Reason::Sleep),
                op: OpId::NONE,
                stack_id: Some(1),
                weight_ns: MS,
                in_gc: false,
                syscall: Syscall::Other,
                in_fault: false,
            });
            evidence.collectives.extend([arrival(10, step, at + 8), arrival(11, step, at + 23)]);
            activity.beats.extend([(10, at + 8), (11, at + 23)].map(|(pid, ms)| Beat {
                pid,
                kind: BeatKind::Collective,
                key: 1,
                counted_as: 1,
                time_ns: ms * MS,
            }));
        }
        let frame = Frame {
            kind: FrameKind::Python,
            function: Some("late".into()),
            file: Some("late.py".into()),
            line: Some(7),
            ..Frame::default()
        };
        evidence.frames.insert(1, vec![frame]);
        evidence.activity = activity;
        evidence
    }

    fn serious(found: &Explanation) -> Vec<(Cause, Option<u32>)> {
        let all = found.findings.iter().filter(|finding| finding.severity != Severity::Low);
        all.map(|finding| (finding.causes[0].class, finding.pid)).collect()
    }

    #[test]
    fn a_late_rank_what_keeps_it_and_the_line_are_one_finding() {
        let found = explain(&job());
        assert_eq!(serious(&found), [(Cause::RankStraggler, Some(11))]);
        let first = &found.findings[0];
        assert!(first.title.contains("asleep in late at late.py:7"), "{}", first.title);
        assert_eq!(first.place.python, ["late.py:7 late"]);
        assert!((first.saves_ms_per_step.unwrap() - 15.0).abs() < 1.0, "{:?}", first.saves_ms_per_step);
        // What is left of the other rank is its own sleep, which hides behind the late one; its waits are not told again.
        let of_other: Vec<Cause> = found
            .findings
            .iter()
            .filter(|finding| finding.pid == Some(10))
            .map(|finding| finding.causes[0].class)
            .collect();
        assert!(!of_other.contains(&Cause::NetWait), "{of_other:?}");
    }

    #[test]
    fn what_ranks_did_before_a_hang_is_no_alarm_beside_it() {
        let mut evidence = job();
        // At the last collective the ranks do not agree.
        evidence.span.end_ns += 10_000 * MS;
        evidence.collectives.last_mut().unwrap().count = Some(2);
        let found = explain(&evidence);
        assert_eq!(found.findings[0].causes[0].class, Cause::RankHang);
        let beside: Vec<_> =
            serious(&found).into_iter().filter(|(class, _)| *class == Cause::SelfSleep).collect();
        assert!(beside.is_empty(), "{beside:?}");
    }
}
