//! A finding in the making: what a rule says, completed with what is known of its process.

use crate::attribution::Attribution;
use crate::case::Case;
use crate::evidence::Site;
use crate::severity::percent;
use gpuwhy_model::{Cause, Finding, Frame, FrameKind, Impact, Place, Severity, Span, is_of_library};

/// Frames named for a finding.
const MAX_FRAMES: usize = 24;

#[derive(Debug, Default)]
pub(crate) struct Draft {
    pub(crate) severity: Option<Severity>,
    pub(crate) title: String,
    pub(crate) op: Option<String>,
    pub(crate) pid: Option<u32>,
    pub(crate) rank: Option<i32>,
    pub(crate) window: Option<Span>,
    /// Of calls that have no ledger.
    pub(crate) impact: Impact,
    pub(crate) attribution: Attribution,
    pub(crate) place: Place,
    pub(crate) fixes: Vec<String>,
    pub(crate) refuted_by: String,
    pub(crate) sql: String,
    /// What a step takes less without it, at least and at most.
    pub(crate) saves_ms: Option<[f64; 2]>,
    /// Where computing itself is the answer, as its line is known.
    pub(crate) explained_pct: Option<f64>,
    /// How the program is built, where nothing else is the matter.
    pub(crate) by_design: Option<&'static str>,
    /// Where it is of another phase than the evidence as a whole.
    pub(crate) phase: Option<&'static str>,
    /// What its time is a share of, where that is not the time in which the process made calls.
    pub(crate) of_ns: Option<u64>,
}

impl Draft {
    pub(crate) fn finish(self, rule: &str, case: &Case<'_>) -> Finding {
        let process = self.pid.and_then(|pid| case.process(pid));
        let wall = self.pid.map_or(case.evidence.span, |pid| case.wall(pid));
        let window = self.window.unwrap_or(wall);
        let ledger = self
            .op
            .as_ref()
            .zip(self.pid)
            .and_then(|(op, pid)| case.ops_of(pid).find(|ledger| ledger.sums.op == *op));
        let us = |ns: u64| ns as f64 / 1e3;
        let mut impact = Impact {
            excess_ms: self.attribution.total_ns() as f64 / 1e6,
            wall_pct: percent(self.attribution.total_ns(), self.of_ns.unwrap_or(wall.ns())).min(100.0),
            ..self.impact
        };
        if let Some(ledger) = ledger {
            impact.calls = ledger.sums.count;
            impact.calls_interval = ledger.sums.interval();
            impact.watched_pct = ledger.sums.watched_pct;
            impact.slow_calls = ledger.slow_calls;
            impact.p50_us = us(ledger.p50_ns);
            impact.p99_us = us(ledger.sums.quantile_ns(0.99));
            impact.max_us = us(ledger.sums.max_ns);
        }
        let id = id(rule, self.pid, self.op.as_deref());
        Finding {
            id: self.phase.map_or_else(|| id.clone(), |phase| format!("{phase}/{id}")),
            rule: rule.into(),
            severity: self.severity.unwrap_or(Severity::Low),
            title: self.title,
            op: self.op,
            pid: self.pid,
            process: process.map(|process| process.comm.clone()),
            cgroup: process.map(|process| process.cgroup.clone()).filter(|path| !path.is_empty()),
            rank: self.rank.or_else(|| process.and_then(|process| process.rank)),
            node: case.evidence.node.clone(),
            window,
            impact,
            causes: self.attribution.shares(|id| case.cgroup(id)),
            explained_pct: self.explained_pct.unwrap_or_else(|| self.attribution.explained_pct()),
            place: self.place,
            fixes: self.fixes,
            refuted_by: self.refuted_by,
            sql: self.sql,
            steps: Vec::new(),
            phase: self.phase.map(Into::into).or_else(|| case.evidence.phase.clone()),
            saves_ms_per_step: self.saves_ms.map(|[least, most]| f64::midpoint(least, most)),
            saves_ms_interval: self.saves_ms,
            // What departs from normal is a fault, however the program is built.
            by_design: self
                .by_design
                .filter(|_| self.severity.is_none_or(|severity| severity == Severity::Low))
                .map(Into::into),
        }
    }
}

fn id(rule: &str, pid: Option<u32>, op: Option<&str>) -> String {
    let mut id = rule.to_string();
    for part in [pid.map(|pid| pid.to_string()), op.map(ToString::to_string)].into_iter().flatten() {
        id.push('/');
        id.push_str(&part);
    }
    id
}

/// Where most of the time of an operation's kept calls was spent: the slow ones, where some were kept for that.
pub(crate) fn place_of(case: &Case<'_>, pid: u32, op: &str) -> Place {
    let sites: Vec<&Site> =
        case.evidence.sites.iter().filter(|site| site.pid == pid && site.op == op).collect();
    let any_slow = sites.iter().any(|site| site.slow_ns > 0);
    let weight = |site: &Site| if any_slow { site.slow_ns } else { site.ns };
    let known = |site: &&&Site| case.evidence.frames.contains_key(&site.stack_id);
    let key = |site: &&&Site| (weight(site), std::cmp::Reverse(site.stack_id));
    let most = sites.iter().filter(known).max_by_key(key);
    // A line of the program says more than a thread of a library, if it has a good part of it.
    let in_python = |site: &&&Site| !place_of_stack(case, Some(site.stack_id)).python.is_empty();
    let python = sites.iter().filter(known).filter(in_python).max_by_key(key);
    let best = python.filter(|site| most.is_none_or(|most| weight(site) * 10 >= weight(most))).or(most);
    let kernel = sites
        .iter()
        .filter(|site| site.kernel.is_some())
        .max_by_key(|site| (weight(site), std::cmp::Reverse(site.stack_id)))
        .and_then(|site| site.kernel.clone());
    let mut place = best.map_or_else(Place::default, |site| place_of_stack(case, Some(site.stack_id)));
    place.kernel = kernel;
    place
}

pub(crate) fn place_of_stack(case: &Case<'_>, stack_id: Option<i64>) -> Place {
    let frames = stack_id.and_then(|id| case.evidence.frames.get(&id)).map_or(&[][..], Vec::as_slice);
    let of = |kind: FrameKind| frames.iter().filter(move |frame| frame.kind == kind);
    // Compilers and frameworks go deep: the program's own lines are named however far out they are.
    let python = of(FrameKind::Python).filter_map(python_line).enumerate();
    let python = python.filter(|(depth, line)| *depth < MAX_FRAMES / 2 || !is_of_library(line));
    Place {
        python: python.map(|(_, line)| line).take(MAX_FRAMES).collect(),
        native: of(FrameKind::Native).filter_map(native_line).take(MAX_FRAMES).collect(),
        kernel: None,
    }
}

fn python_line(frame: &Frame) -> Option<String> {
    let function = frame.function.as_deref().unwrap_or("?");
    let file = frame.file.as_deref()?;
    Some(match frame.line {
        Some(line) => format!("{file}:{line} {function}"),
        None => format!("{file} {function}"),
    })
}

fn native_line(frame: &Frame) -> Option<String> {
    let function = frame.function.as_deref()?;
    let module = frame.module.rsplit('/').next().unwrap_or_default();
    Some(match (frame.file.as_deref(), frame.line) {
        (Some(file), Some(line)) => {
            format!("{function} at {}:{line} ({module})", file.rsplit('/').next().unwrap_or(file))
        }
        _ if module.is_empty() => function.to_string(),
        _ => format!("{function} ({module})"),
    })
}

/// The place in as few words as possible, for a title: the program's own line.
pub(crate) fn in_short(place: &Place) -> Option<String> {
    // The program's own line; those of libraries are in the list.
    let own = place.python.iter().find(|line| !is_of_library(line));
    if let Some(line) = own.or(place.python.first()) {
        let (file, rest) = line.split_once(':').unwrap_or((line, ""));
        return Some(format!("{}:{rest}", file.rsplit('/').next().unwrap_or(file)));
    }
    None
}

/// The same for the middle of a sentence: ` at train.py:142 forward`, or nothing.
pub(crate) fn at(place: &Place) -> String {
    in_short(place).map_or_else(String::new, |line| format!(" at {line}"))
}

/// Time in words for titles.
pub(crate) fn seconds(ns: u64) -> String {
    gpuwhy_model::units::duration(ns)
}

/// As `cpu.preempted by stress[99] and 2 others`.
pub(crate) fn cause_in_words(case: &Case<'_>, attribution: &Attribution, cause: Cause) -> String {
    let mut words = match cause {
        Cause::CpuPreempted => "another task had the CPU".to_string(),
        Cause::CpuThrottled => "its cgroup's CPU quota was used up".to_string(),
        Cause::CpuSelf => "computing inside the library".to_string(),
        Cause::Unknown => "for a reason that was not observed".to_string(),
        other => other.about().to_string(),
    };
    if let Some((_, share)) = attribution.main_culprit(cause) {
        let who = match share.pid {
            Some(pid) if !share.comm.is_empty() => format!("{}[{pid}]", share.comm),
            Some(pid) => case.name(pid),
            None => share.comm.clone(),
        };
        let others = attribution.culprits(cause) - 1;
        words += &match others {
            0 => format!(": {who}"),
            1 => format!(": {who} and one more"),
            _ => format!(": {who} and {others} more"),
        };
    }
    words
}
