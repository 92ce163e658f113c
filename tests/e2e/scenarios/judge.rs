//! What was said, compared with what is true.

use super::setup::{Played, Who};
use super::{Culprit, Hit, Right};
use crate::support::{done, gpuwhy};
use serde_json::Value;

/// What a run with the fault came to.
#[derive(Debug, Clone)]
pub(super) struct Verdict {
    pub(super) class: bool,
    pub(super) culprit: bool,
    pub(super) explained_pct: f64,
    /// In short, for the list of misses.
    pub(super) message: String,
}

impl Verdict {
    /// Nothing was said; it depends on the scenario whether that is right.
    fn silence(right: bool) -> Verdict {
        Verdict { class: right, culprit: right, explained_pct: 0.0, message: "nothing".into() }
    }
}

/// The findings about the workload, or about nobody in particular, such as a GPU.
pub(super) fn findings(played: &Played) -> Vec<Value> {
    let output = gpuwhy().args(["explain", "--json"]).arg(played.trace.file()).output().unwrap();
    // Status 3: there was nothing to look at.
    if output.status.code() == Some(3) {
        return Vec::new();
    }
    let message: Value = serde_json::from_str(&done(output)).unwrap();
    let of_victim = |finding: &&Value| match finding["pid"].as_u64() {
        Some(pid) => played.victims.contains(&(pid as u32)),
        None => true,
    };
    message["findings"].as_array().unwrap().iter().filter(of_victim).cloned().collect()
}

pub(super) fn is_serious(finding: &Value) -> bool {
    finding["severity"] != "low"
}

/// Severity, operation, and the causes with who is named first for each.
pub(super) fn in_short(finding: &Value) -> String {
    let causes: Vec<String> = finding["causes"]
        .as_array()
        .unwrap()
        .iter()
        .take(3)
        .map(|cause| {
            let by = cause["by"][0]["comm"].as_str().map_or_else(String::new, |comm| format!(" by {comm}"));
            format!(
                "{} {:.0}%{by}",
                cause["class"].as_str().unwrap(),
                cause["share_pct"].as_f64().unwrap_or(0.0)
            )
        })
        .collect();
    format!(
        "{} {} ({}): {}",
        finding["severity"].as_str().unwrap(),
        finding["rule"].as_str().unwrap_or("?"),
        finding["op"].as_str().unwrap_or("between calls"),
        causes.join(", ")
    )
}

fn is_hit(hit: Hit, finding: &Value) -> bool {
    match hit {
        Hit::Op(op) => finding["op"] == op,
        Hit::OneOf(ops) => finding["op"].as_str().is_some_and(|op| ops.contains(&op)),
        Hit::Between => finding["op"].is_null(),
        Hit::Start => finding["phase"] == "start",
        Hit::Anywhere => true,
    }
}

fn names(who: &Who, finding: &Value, by: &Value, victims: &[u32]) -> bool {
    match who {
        Who::Pid(pid) => by["pid"] == *pid,
        Who::Comm(comm) => by["comm"] == comm.as_str(),
        Who::Rank(rank) => by["rank"] == *rank || finding["rank"] == *rank,
        Who::Own => by["pid"].as_u64().is_some_and(|pid| victims.contains(&(pid as u32))),
    }
}

pub(super) fn judge(right: &Right, played: &Played, findings: &[Value]) -> Verdict {
    if right.classes.is_empty() {
        return judge_quiet(played, findings);
    }
    let Some(finding) = findings.iter().find(|finding| is_hit(right.hit, finding)) else {
        return Verdict::silence(false);
    };
    // Where only the start is slow, nothing is wrong with the loop.
    let of_loop = findings.iter().find(|finding| is_serious(finding) && finding["phase"] != "start");
    if let (Hit::Start, Some(alarm)) = (right.hit, of_loop) {
        return Verdict { message: in_short(alarm), ..Verdict::silence(false) };
    }
    let causes = finding["causes"].as_array().unwrap();
    let classes: Vec<&str> = causes.iter().filter_map(|cause| cause["class"].as_str()).collect();
    let class = match played.order.is_empty() {
        true => classes.first().is_some_and(|first| right.classes.contains(first)),
        false => classes.starts_with(&played.order),
    };
    // Of two faults, one has somebody else behind it.
    let is_own = |by: &Value| played.victims.iter().any(|pid| by["pid"] == *pid);
    let has_culprit = |cause: &&Value| cause["by"].as_array().unwrap().first().is_some_and(|by| !is_own(by));
    let cause = if played.order.is_empty() { causes.first() } else { causes.iter().find(has_culprit) };
    let by: Vec<&Value> =
        cause.map_or_else(Vec::new, |cause| cause["by"].as_array().unwrap().iter().collect());
    let is_one = |by: &&&Value| played.culprits.iter().any(|who| names(who, finding, by, &played.victims));
    let culprit = match right.culprit {
        Culprit::Them => by.first().is_some_and(|by| is_one(&by)),
        Culprit::Several => by.iter().filter(is_one).count() >= 3,
        Culprit::Unprivileged => by.is_empty(),
        Culprit::NotJudged => true,
    };
    Verdict {
        class,
        culprit,
        explained_pct: finding["explained_pct"].as_f64().unwrap_or(0.0),
        message: in_short(finding),
    }
}

/// Of a run in which nothing is wrong: those who were there are not blamed.
fn judge_quiet(played: &Played, findings: &[Value]) -> Verdict {
    let blamed = findings.iter().filter(|finding| is_serious(finding)).find(|finding| {
        let causes = finding["causes"].as_array().unwrap().iter();
        causes
            .flat_map(|cause| cause["by"].as_array().unwrap())
            .any(|by| played.culprits.iter().any(|who| names(who, finding, by, &played.victims)))
    });
    match blamed {
        None => Verdict { explained_pct: 100.0, ..Verdict::silence(true) },
        Some(finding) => Verdict { message: in_short(finding), ..Verdict::silence(false) },
    }
}

/// Whether somebody who is no part of it had the CPU: then a finding that says so is true of a host that is not quiet.
pub(super) fn names_a_visitor(played: &Played, finding: &Value) -> bool {
    let is_ours = |by: &Value| {
        let mut ours = played.victims.iter().chain(&played.helpers);
        ours.any(|pid| by["pid"] == *pid)
    };
    let causes = finding["causes"].as_array().unwrap();
    let taken = causes.iter().find(|cause| cause["class"] != "gpu.wait");
    taken.is_some_and(|cause| {
        cause["class"] == "cpu.preempted"
            && cause["by"].as_array().unwrap().first().is_some_and(|by| !is_ours(by))
    })
}
