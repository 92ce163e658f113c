//! What being watched may cost, told to the kernel; calls that are watched in slices of time, attached for each and
//! detached between them.

use super::attach::{Group, Target, attach_group};
use super::ready::Ready;
use super::{Engine, LoadError};
use crate::raw::{bytes_of, cuda as raw, read};
use gpuwhy_model::{CallClass, Debt, ProbeState, ProbeStatus, Span};
use libbpf_rs::{MapCore, MapFlags};
use std::time::{Duration, Instant};

/// Times in nanoseconds. A thread's debt grows by what its calls cost and drains at the rate of the budget.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Budget {
    /// Debt beyond which no stacks are taken.
    pub stacks_ns: u64,
    /// Share of the time that drains from a debt.
    pub drain: f64,
    pub entry_ns: u64,
    /// An entry with its return.
    pub pair_ns: u64,
    /// Besides, for a call that is kept; and for its stack.
    pub kept_ns: u64,
    pub stack_ns: u64,
}

/// When the calls of a class are counted: those that begin in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SliceSetting {
    /// Tells its sums from others; in [`gpuwhy_model::CallWindow`].
    pub number: u8,
    pub span: Span,
    /// What a thread may pay in it; of one without end, what it may owe. Beyond that the kernel ends it at once.
    pub limit_ns: Option<u64>,
    /// Calls that began before may have returned while nothing was attached.
    pub gone_ns: u64,
}

pub(crate) fn decode(bytes: &[u8], clock_offset_ns: u64) -> Option<Debt> {
    let record: raw::debt_record = read(bytes)?;
    Some(Debt {
        time_ns: record.head.time_ns.wrapping_add(clock_offset_ns),
        pid: record.head.tgid,
        tid: record.head.tid,
        debt_ns: record.debt_ns,
        class: CallClass::of_number(record.class),
    })
}

impl Engine {
    /// Nothing for no limit; what calls cost is counted all the same.
    pub fn set_budget(&self, budget: &Budget, limited: bool) -> Result<(), LoadError> {
        let value = raw::governor {
            stacks_ns: if limited { budget.stacks_ns } else { 0 },
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

    /// All calls are counted, until somebody says otherwise.
    pub(super) fn open_all_slices(&mut self) -> Result<(), LoadError> {
        let span = Span { start_ns: self.clock_offset_ns, end_ns: u64::MAX };
        for class in CallClass::ALL {
            self.set_slice(class, &SliceSetting { number: 0, span, limit_ns: None, gone_ns: 0 })?;
        }
        Ok(())
    }

    /// From when to when calls of a class are counted.
    pub fn set_slice(&mut self, class: CallClass, setting: &SliceSetting) -> Result<(), LoadError> {
        let Ok(slices) = self.maps.get("slices") else { return Ok(()) };
        let monotonic = |unix_ns: u64| match unix_ns {
            0 => 0,
            u64::MAX => u64::MAX,
            ns => ns.saturating_sub(self.clock_offset_ns),
        };
        let value = raw::slice {
            from_ns: monotonic(setting.span.start_ns),
            to_ns: monotonic(setting.span.end_ns),
            gone_ns: monotonic(setting.gone_ns),
            limit_ns: setting.limit_ns.unwrap_or(0),
            closed_ns: 0,
            number: setting.number.into(),
            whole: u32::from(setting.span.end_ns == u64::MAX),
        };
        let key = u32::from(class.number()).to_ne_bytes();
        slices
            .update(&key, bytes_of(&value), MapFlags::ANY)
            .map_err(|error| LoadError::Internal(format!("slice of {}: {error}", class.name())))?;
        self.gone_ns.insert(class, setting.gone_ns);
        Ok(())
    }

    /// When the kernel has ended the slice that was set last, if it has.
    pub fn slice_closed(&self, class: CallClass) -> Option<u64> {
        let key = u32::from(class.number()).to_ne_bytes();
        let bytes = self.maps.get("slices").ok()?.lookup(&key, MapFlags::ANY).ok()??;
        let slice: raw::slice = read(&bytes)?;
        (slice.closed_ns != 0).then(|| slice.closed_ns.wrapping_add(self.clock_offset_ns))
    }

    /// Functions are to be detached at this time: then it takes no longer than it must.
    pub fn detach_soon(&mut self, at_ns: u64) {
        let wait = Duration::from_nanos(at_ns.saturating_sub(self.now_ns()));
        self.ready = self.ready.take().or_else(Ready::start);
        if let Some(ready) = &self.ready {
            ready.at(Instant::now() + wait);
        }
    }

    /// Detaches the functions of a class in all libraries.
    pub fn detach_class(&mut self, class: CallClass) {
        self.detached.insert(class);
        self.drop_detached();
    }

    /// Traps end at once; that no program runs any more takes the kernel a while, for which nobody waits here.
    pub(super) fn drop_detached(&mut self) {
        let detached = &self.detached;
        let of_detached = |group: &&mut Group| group.class.is_some_and(|class| detached.contains(&class));
        let links: Vec<_> =
            self.groups.iter_mut().filter(of_detached).flat_map(|group| group.links.drain(..)).collect();
        if !links.is_empty() {
            std::thread::spawn(move || drop(links));
        }
    }

    /// Attaches them again; what could not be.
    pub fn attach_class(&mut self, class: CallClass) -> Vec<ProbeStatus> {
        self.detached.remove(&class);
        let now = self.now_ns();
        let mut refused = Vec::new();
        for group in &mut self.groups {
            if group.class != Some(class) || !group.links.is_empty() {
                continue;
            }
            let object = self.loaded.iter().find(|loaded| loaded.probe.name == group.probe());
            let Some(loaded) = object else { continue };
            match attach_group(&loaded.object, group, self.flavour) {
                Ok(links) => group.links = links,
                Err(reason) => refused.extend(group.refused(self.flavour.name(), now, &reason)),
            }
        }
        refused
    }
}

impl Group {
    pub(super) fn refused(&self, flavour: &str, now_ns: u64, reason: &str) -> Vec<ProbeStatus> {
        let status = |target: &Target| ProbeStatus {
            probe: self.probe().into(),
            target: target.rule.function.symbol.into(),
            file: self.file.shown_path.clone(),
            state: ProbeState::Refused,
            flavour: flavour.into(),
            since_ns: now_ns,
            reason: reason.into(),
        };
        self.targets.iter().map(status).collect()
    }
}
