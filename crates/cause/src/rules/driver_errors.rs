//! Errors of GPUs, and calls that failed.

use super::Rule;
use crate::attribution::{Attribution, Share, Who};
use crate::case::Case;
use crate::draft::{Draft, at, place_of_stack};
use crate::evidence::FailedCalls;
use gpuwhy_model::{Cause, Family, GpuError, Severity};
use std::collections::BTreeMap;

pub(super) const RULE: Rule = Rule {
    name: "driver_errors",
    about: "Xid and ECC errors the GPU reported, and launches, copies and synchronisations that returned an error",
    causes: &[Cause::GpuError],
    threshold: "one uncorrected error of a GPU; 3 failed launches, copies or synchronisations that returned the same error. \
                Queries that say `not ready`, and allocations (see `memory_failures`), are not counted",
    refuted_by: "the kernel's log without such an Xid; the same call returning 0 in `cuda_events`",
    find,
};

const MIN_FAILED: u64 = 3;
/// cudaErrorMemoryAllocation; cudaErrorNotReady.
const NOT_HERE: [i32; 2] = [2, 600];

fn find(case: &Case<'_>) -> Vec<Draft> {
    let mut drafts: Vec<Draft> = of_gpus(case);
    drafts.extend(case.evidence.failed_calls.iter().filter_map(|failed| of_calls(case, failed)));
    drafts
}

fn of_gpus(case: &Case<'_>) -> Vec<Draft> {
    let mut by_code: BTreeMap<(String, i64, Option<u32>), Vec<&GpuError>> = BTreeMap::new();
    for error in &case.evidence.gpu_errors {
        by_code.entry((error.event.clone(), error.code, error.gpu)).or_default().push(error);
    }
    let mut drafts = Vec::new();
    for ((event, code, gpu), errors) in by_code {
        let Some(first) = errors.iter().min_by_key(|error| (error.time_ns, &error.message)) else { continue };
        let name = match event.as_str() {
            "xid" => format!("Xid {code}"),
            other => format!("{other} error"),
        };
        let on = gpu.map_or_else(|| first.device.clone(), |gpu| format!("GPU {gpu}"));
        let mut attribution = Attribution::default();
        attribution.add(Cause::GpuError, 1);
        attribution
            .note(Cause::GpuError, format!("{name} on {on}, {} times: {}", errors.len(), first.message));
        let pid = errors.iter().find_map(|error| error.pid).filter(|pid| *pid != 0);
        if let Some(pid) = pid {
            let comm = case.comm(pid);
            let share = Share { comm, pid: Some(pid), ns: 1, count: errors.len() as u64, ..Share::default() };
            attribution.blame(Cause::GpuError, Who::Process(pid), share);
        }
        drafts.push(Draft {
            severity: Some(Severity::Critical),
            title: format!("{on} reported {name}: {}", meaning(&event, code)),
            pid: pid.filter(|pid| case.process(*pid).is_some()),
            fixes: vec![
                "see the kernel's log: `sudo dmesg | grep -i xid`".into(),
                format!(
                    "see the GPU's memory errors: `nvidia-smi -q -d ECC,PAGE_RETIREMENT,ROW_REMAPPER{}`",
                    gpu.map_or_else(String::new, |gpu| format!(" -i {gpu}"))
                ),
                advice(code).into(),
            ],
            sql: "SELECT * FROM gpu_errors ORDER BY timestamp_ns".into(),
            attribution,
            ..Draft::default()
        });
    }
    drafts
}

/// Of the Xids people meet most.
fn meaning(event: &str, code: i64) -> &'static str {
    match (event, code) {
        ("xid", 13) => "a kernel did something illegal",
        ("xid", 31) => "a kernel touched memory that is not mapped",
        ("xid", 43) => "a process's work was stopped after an error",
        ("xid", 45) => "work was taken off after an earlier error",
        ("xid", 48) => "a memory error that could not be corrected",
        ("xid", 61 | 62) => "the GPU's microcontroller halted",
        ("xid", 63 | 64) => "a memory page or row was retired",
        ("xid", 74) => "an NVLink error",
        ("xid", 79) => "the GPU has fallen off the bus",
        ("xid", 94 | 95) => "a contained or uncontained memory error",
        ("xid", 119 | 120) => "the GPU's system processor does not answer",
        ("ecc", _) => "a memory error that could not be corrected",
        _ => "an error the driver reported",
    }
}

fn advice(code: i64) -> &'static str {
    match code {
        13 | 31 | 43 | 45 => {
            "run the program with compute-sanitizer, or with CUDA_LAUNCH_BLOCKING=1 to find the kernel"
        }
        48 | 63 | 64 | 79 | 94 | 95 | 119 | 120 => {
            "drain the node, reset the GPU (nvidia-smi -r) and watch whether it comes back"
        }
        _ => "look the Xid up in the driver's documentation before the GPU is used again",
    }
}

fn of_calls(case: &Case<'_>, failed: &FailedCalls) -> Option<Draft> {
    let family = case.info(&failed.op)?.family;
    let counted = matches!(family, Family::Launch | Family::Copy | Family::Sync | Family::Graph);
    if !counted || NOT_HERE.contains(&failed.ret) || failed.count < MIN_FAILED {
        return None;
    }
    let mut attribution = Attribution::default();
    attribution.add(Cause::GpuError, failed.ns.max(1));
    attribution.note(Cause::GpuError, format!("{} calls returned {}", failed.count, failed.ret));
    let place = place_of_stack(case, failed.stack_id);
    let at = at(&place);
    Some(Draft {
        severity: Some(Severity::Medium),
        title: format!(
            "{} of {}{at} returned error {} {} times",
            failed.op,
            case.name(failed.pid),
            failed.ret,
            failed.count
        ),
        op: Some(failed.op.clone()),
        pid: Some(failed.pid),
        fixes: vec!["run it with CUDA_LAUNCH_BLOCKING=1: errors of kernels are told by later calls".into()],
        sql: format!(
            "SELECT timestamp_ns, op, ret, stack_id FROM cuda_events WHERE pid = {} AND kept = 'error'",
            failed.pid
        ),
        attribution,
        place,
        ..Draft::default()
    })
}
