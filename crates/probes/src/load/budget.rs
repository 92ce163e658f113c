//! What being watched may cost, told to the kernel; functions that are detached for a while, and attached again.

use super::attach::{Group, attach_group};
use super::{Engine, LoadError};
use crate::raw::{bytes_of, cuda as raw, read};
use gpuwhy_model::{Level, LevelChange, ProbeState, ProbeStatus};
use libbpf_rs::{MapCore, MapFlags};

/// Times in nanoseconds. A thread's debt grows by what its calls cost and drains at the rate of the budget.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Budget {
    /// Debt beyond which a thread is over budget.
    pub capacity_ns: u64,
    /// Share of the time that drains from a debt.
    pub drain: f64,
    pub entry_ns: u64,
    /// An entry with its return.
    pub pair_ns: u64,
    /// Besides, for a call that is kept; and for its stack.
    pub kept_ns: u64,
    pub stack_ns: u64,
}

pub(crate) fn decode(bytes: &[u8], clock_offset_ns: u64) -> Option<LevelChange> {
    let record: raw::level_record = read(bytes)?;
    Some(LevelChange {
        time_ns: record.head.time_ns.wrapping_add(clock_offset_ns),
        pid: record.head.tgid,
        tid: record.head.tid,
        level: *Level::ALL.get(record.level as usize)?,
        debt_ns: record.debt_ns,
        rule: record.rule,
        library: record.library,
    })
}

impl Engine {
    /// Nothing for no limit; what calls cost is counted all the same.
    pub fn set_budget(&self, budget: &Budget, limited: bool) -> Result<(), LoadError> {
        let value = raw::governor {
            capacity_ns: if limited { budget.capacity_ns } else { 0 },
            entry_ns: budget.entry_ns,
            pair_ns: budget.pair_ns,
            kept_ns: budget.kept_ns,
            stack_ns: budget.stack_ns,
            drain: (budget.drain * f64::from(1 << 20)) as u32,
            reserved: 0,
        };
        // Calls are what costs: without a probe of calls there is nobody to charge.
        let Ok(governor) = self.maps.get("governor") else { return Ok(()) };
        governor
            .update(&0u32.to_ne_bytes(), bytes_of(&value), MapFlags::ANY)
            .map_err(|error| LoadError::Internal(format!("governor: {error}")))
    }

    /// Detaches a function, and those that share its link; says what is not seen any more. Nothing where it already is.
    pub fn detach_function(&mut self, rule: u16, library: u16, reason: &str) -> Vec<ProbeStatus> {
        let now = self.now_ns();
        let Some(group) = self.groups.iter_mut().find(|group| group.has(rule, library)) else {
            return Vec::new();
        };
        if group.links.is_empty() {
            return Vec::new();
        }
        // Traps end at once; that no program runs any more takes the kernel a while, for which nobody waits here.
        let links = std::mem::take(&mut group.links);
        std::thread::spawn(move || drop(links));
        group.statuses(ProbeState::Degraded, self.flavour.name(), now, reason)
    }

    /// Attaches it again.
    pub fn reattach_function(&mut self, rule: u16, library: u16) -> Vec<ProbeStatus> {
        let now = self.now_ns();
        let Some(group) = self.groups.iter_mut().find(|group| group.has(rule, library)) else {
            return Vec::new();
        };
        if !group.links.is_empty() {
            return Vec::new();
        }
        let object = self.loaded.iter().find(|loaded| loaded.probe.name == group.probe());
        let Some(loaded) = object else { return Vec::new() };
        match attach_group(&loaded.object, group, self.flavour) {
            Ok(links) => {
                group.links = links;
                group.statuses(ProbeState::Attached, self.flavour.name(), now, "attached again")
            }
            Err(reason) => group.statuses(ProbeState::Refused, self.flavour.name(), now, &reason),
        }
    }
}

impl Group {
    fn statuses(&self, state: ProbeState, flavour: &str, now_ns: u64, reason: &str) -> Vec<ProbeStatus> {
        let status = |target: &super::attach::Target| ProbeStatus {
            probe: self.probe().into(),
            target: target.rule.function.symbol.into(),
            file: self.file.shown_path.clone(),
            state,
            flavour: flavour.into(),
            since_ns: now_ns,
            reason: reason.into(),
        };
        self.targets.iter().map(status).collect()
    }
}
