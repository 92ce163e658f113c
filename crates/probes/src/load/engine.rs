//! The loaded probes as one thing: targets in, libraries in, batches out.

use super::attach::{Flavour, Group};
use super::loss::LossReader;
use super::object::{SharedMaps, has_variable, set_variable};
use super::ready::Ready;
use super::rings::Rings;
use super::rules::{self, Rule};
use super::slots::Slots;
use super::stats::{self, ProgramStats};
use super::sums::{take_waits, take_windows};
use super::tracepoints::{self, Placed};
use super::{LoadError, Settings, StackMode, TrapCost, clock};
use crate::call::WINDOW_NS;
use crate::probe::{Attach, Probe};
use crate::raw;
use gpuwhy_model::{Batch, CallClass, LibraryInfo, OpId, OpInfo, ProbeStatus, ProcessEventKind};
use gpuwhy_proc::{FileId, TargetFile};
use libbpf_rs::{Link, MapCore, MapFlags, Object};
use std::collections::{HashMap, HashSet};
use std::thread::JoinHandle;
use std::time::Duration;

/// A window is read so long after its end: a program that was preempted in the middle still gets to count.
const WINDOW_GRACE_NS: u64 = 100_000_000;

pub(super) struct Loaded {
    pub(super) probe: &'static Probe,
    pub(super) object: Object,
    pub(super) load_time: Duration,
}

/// How to load a probe whose library turns up later.
pub(super) struct Later {
    pub(super) settings: Settings,
    pub(super) shards: usize,
    pub(super) probes: Vec<&'static Probe>,
    /// Those that are being loaded in the background, by name.
    pub(super) loading: HashMap<&'static str, JoinHandle<Result<Object, LoadError>>>,
}

/// The loaded probes.
pub struct Engine {
    // Links go first: nothing may fire into maps that are gone.
    pub(super) placed: Vec<Placed>,
    /// Links to functions of libraries.
    pub(super) groups: Vec<Group>,
    pub(super) loaded: Vec<Loaded>,
    pub(super) later: Later,
    pub(super) maps: SharedMaps,
    pub(super) rings: Rings,
    pub(super) ops: Vec<OpInfo>,
    pub(super) rules: Vec<Rule>,
    pub(super) keep_all: bool,
    pub(super) stacks: StackMode,
    pub(super) flavour: Flavour,
    pub(super) trap_cost: Option<TrapCost>,
    /// Classes of calls whose functions are detached now, and when those of each were last.
    pub(super) detached: HashSet<CallClass>,
    pub(super) gone_ns: HashMap<CallClass, u64>,
    pub(super) ready: Option<Ready>,
    pub(super) statuses: Vec<ProbeStatus>,
    /// When each was attached, on the records' clock.
    pub(super) attached_files: HashMap<FileId, u64>,
    pub(super) libraries: Vec<LibraryInfo>,
    /// The files of each, as long as they are attached.
    pub(super) library_files: Vec<Option<TargetFile>>,
    pub(super) losses: LossReader,
    pub(super) slots: Slots,
    /// Walks over all tasks, where the kernel can, by their programs' names.
    pub(super) walks: HashMap<String, Link>,
    /// Processes that ended, and how often sums were drained since.
    pub(super) ended: Vec<(u32, u32)>,
    pub(super) drained_before: u32,
    pub(super) clock_offset_ns: u64,
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine")
            .field("flavour", &self.flavour)
            .field("placed", &self.placed.len())
            .finish_non_exhaustive()
    }
}

impl Engine {
    pub fn ops(&self) -> &[OpInfo] {
        &self.ops
    }

    pub fn flavour(&self) -> Flavour {
        self.flavour
    }

    /// What an empty probe of that flavour cost here, where it could be measured.
    pub fn trap_cost(&self) -> Option<TrapCost> {
        self.trap_cost
    }

    /// Unix time less the kernel's monotonic time, as used for every timestamp of this run.
    pub fn clock_offset_ns(&self) -> u64 {
        self.clock_offset_ns
    }

    /// Now, on the clock of the records.
    pub fn now_ns(&self) -> u64 {
        clock::monotonic_ns().wrapping_add(self.clock_offset_ns)
    }

    /// A time of the kernel's monotonic clock on the clock of the records.
    pub fn unix_ns(&self, monotonic_ns: u64) -> u64 {
        monotonic_ns.wrapping_add(self.clock_offset_ns)
    }

    /// The state of everything attached or tried so far.
    pub fn statuses(&self) -> &[ProbeStatus] {
        &self.statuses
    }

    /// Readable when records have gathered.
    pub fn ready_fd(&self) -> i32 {
        self.rings.ready_fd()
    }

    /// What counts as slow for an operation from now on.
    pub fn set_slow(&self, op: OpId, slow_ns: u64) -> Result<(), LoadError> {
        for rule in self.rules.iter().filter(|rule| rule.op == op) {
            rules::write(self.maps.get("rules")?, rule, slow_ns, self.keep_all)?;
        }
        Ok(())
    }

    pub fn set_stacks(&mut self, mode: StackMode) -> Result<(), LoadError> {
        self.stacks = mode;
        let value = match mode {
            StackMode::Off => raw::cuda::STACKS_OFF,
            StackMode::Auto => raw::cuda::STACKS_AUTO,
            StackMode::On => raw::cuda::STACKS_ON,
        };
        for loaded in self.loaded.iter().filter(|loaded| has_variable(loaded.probe.object, "stack_mode")) {
            set_variable(loaded.probe.object, &loaded.object, "stack_mode", &value.to_ne_bytes())?;
        }
        Ok(())
    }

    /// Waits until records gathered or the time is up, and takes them.
    pub fn poll(&mut self, timeout: Duration) -> Batch {
        self.rings.poll(timeout);
        let batch = self.rings.take();
        let exits = batch.process_events.iter().filter(|event| event.kind == ProcessEventKind::Exit);
        self.ended.extend(exits.map(|event| (event.pid, 0)));
        batch
    }

    /// Where the driver in use keeps a function's name, in its struct.
    pub fn set_function_name_offset(&self, offset: u64) {
        for loaded in &self.loaded {
            if let Attach::Functions(_) = loaded.probe.attach {
                // Without it names are read by user space, a little later.
                let _ = set_variable(
                    loaded.probe.object,
                    &loaded.object,
                    "function_name_offset",
                    &offset.to_ne_bytes(),
                );
            }
        }
    }

    /// Where a program said the name of a kernel is, when it registered the kernel's stub.
    pub fn registered_name_at(&self, pid: u32, stub: u64) -> Option<u64> {
        let key = raw::cuda::slot_key { tgid: pid, tid: 0, handle: stub };
        let value =
            self.maps.get("registrations").ok()?.lookup(raw::bytes_of(&key), MapFlags::ANY).ok()??;
        Some(u64::from_ne_bytes(value.try_into().ok()?))
    }

    /// Records read so far, and how many of them made no sense.
    pub fn record_counts(&self) -> (u64, u64) {
        self.rings.counts()
    }

    /// Takes the sums of windows that are over, and the losses since the last time.
    pub fn drain(&mut self, batch: &mut Batch) -> Result<(), LoadError> {
        let before = (clock::monotonic_ns().saturating_sub(WINDOW_GRACE_NS) / WINDOW_NS) as u32;
        // Walking the maps is only worth it when another window is over.
        if before == self.drained_before {
            return Ok(());
        }
        self.drained_before = before;
        self.drain_before(batch, before)
    }

    fn drain_before(&mut self, batch: &mut Batch, before: u32) -> Result<(), LoadError> {
        if let Ok(windows) = self.maps.get("windows") {
            batch.windows.extend(take_windows(windows, before, self.clock_offset_ns));
        }
        if let Ok(waits) = self.maps.get("waits") {
            batch.waits.extend(take_waits(waits, before, self.clock_offset_ns));
        }
        if self.maps.get("streams").is_ok() {
            self.slots.read(&self.maps, batch, clock::monotonic_ns(), self.clock_offset_ns)?;
            self.forget_ended()?;
        }
        let now = self.now_ns();
        batch.losses.extend(self.losses.read(self.maps.get("losses")?, now)?);
        Ok(())
    }

    /// Once their last sums are out.
    fn forget_ended(&mut self) -> Result<(), LoadError> {
        for (pid, drained) in std::mem::take(&mut self.ended) {
            match drained {
                0 => self.ended.push((pid, 1)),
                _ => self.slots.forget(&self.maps, pid)?,
            }
        }
        Ok(())
    }

    /// Detaches everything, then takes what is left.
    pub fn detach(&mut self) -> Result<Batch, LoadError> {
        tracepoints::detach(std::mem::take(&mut self.placed));
        // Each waits until the kernel is sure that no program of it runs any more: side by side they wait once.
        std::thread::scope(|scope| {
            for group in self.groups.drain(..) {
                scope.spawn(move || drop(group));
            }
        });
        let mut batch = self.poll(Duration::ZERO);
        self.drain_before(&mut batch, u32::MAX)?;
        Ok(batch)
    }

    /// How long each probe's programs and maps took to load, those of refused kinds included.
    pub fn load_times(&self) -> Vec<(&'static str, Duration)> {
        self.loaded.iter().map(|loaded| (loaded.probe.name, loaded.load_time)).collect()
    }

    /// Costs, run counts and times of the loaded programs.
    pub fn program_stats(&self) -> Vec<ProgramStats> {
        self.loaded.iter().flat_map(|loaded| stats::of_object(loaded.probe.name, &loaded.object)).collect()
    }
}
