//! The loaded probes as one thing: targets in, libraries in, batches out.

use super::attach::{self, Flavour, LibraryFile, said};
use super::features::Features;
use super::loss::LossReader;
use super::object::{Opened, SharedMaps, set_variable};
use super::rings::{self, Rings};
use super::rules::{self, Rule};
use super::stats::{self, ProgramStats};
use super::sums::{take_waits, take_windows};
use super::{FileId, LoadError, Scope, Settings, StackMode, clock};
use crate::call::WINDOW_NS;
use crate::probe::{Attach, Probe, op_infos};
use crate::{raw, sched};
use gpuwhy_model::{Batch, OpId, OpInfo, ProbeState, ProbeStatus};
use libbpf_rs::{Link, MapCore, MapFlags, MapHandle, Object};
use std::collections::HashSet;
use std::os::fd::AsRawFd;
use std::time::Duration;

/// A window is read so long after its end: a program that was preempted in the middle still gets to count.
const WINDOW_GRACE_NS: u64 = 100_000_000;

struct Loaded {
    probe: &'static Probe,
    object: Object,
}

/// The loaded probes.
pub struct Engine {
    // Links go first: nothing may fire into maps that are gone.
    links: Vec<Link>,
    loaded: Vec<Loaded>,
    maps: SharedMaps,
    rings: Rings,
    ops: Vec<OpInfo>,
    rules: Vec<Rule>,
    keep_all: bool,
    flavour: Flavour,
    statuses: Vec<ProbeStatus>,
    attached_files: HashSet<FileId>,
    losses: LossReader,
    drained_before: u32,
    clock_offset_ns: u64,
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine")
            .field("flavour", &self.flavour)
            .field("links", &self.links.len())
            .finish_non_exhaustive()
    }
}

impl Engine {
    /// Loads the probes and attaches the tracepoints; libraries are attached as they are found.
    pub fn load(settings: &Settings) -> Result<Engine, LoadError> {
        if !std::path::Path::new("/sys/kernel/btf/vmlinux").exists() {
            return Err(LoadError::NoBtf);
        }
        let mut ladder = match settings.flavour {
            Some(flavour) => vec![flavour],
            None => Features::probe().ladder().map_err(LoadError::NotAllowed)?,
        };
        let cpus = libbpf_rs::num_possible_cpus().map_err(|error| LoadError::load("cpus", &error))?;
        let shards = rings::shards_for(cpus);
        let ops = op_infos(&settings.probes);
        let rules = rules::all(&settings.probes, &ops);
        let clock_offset_ns = clock::offset_ns();

        let mut maps = SharedMaps::default();
        let mut loaded = Vec::new();
        let mut links = Vec::new();
        let mut statuses = Vec::new();
        for probe in &settings.probes {
            let mut result = load_probe(probe, settings, ladder[0], shards, &mut maps);
            // A kernel may attach a kind of probe and yet refuse the real program: then the next kind.
            while let Err(LoadError::Refused { reason, .. }) = &result
                && matches!(probe.attach, Attach::Functions(_))
                && ladder.len() > 1
            {
                statuses.push(refused(probe, ladder[0].name(), reason));
                ladder.remove(0);
                result = load_probe(probe, settings, ladder[0], shards, &mut maps);
            }
            match result {
                Ok(object) => {
                    attach_tracepoints(probe, &object, clock_offset_ns, &mut links, &mut statuses);
                    loaded.push(Loaded { probe, object });
                }
                // Tracing goes on without the kernel's side of the story; nothing works without the calls.
                Err(error) if matches!(probe.attach, Attach::Tracepoints(_)) && !is_permission(&error) => {
                    statuses.push(refused(probe, "tracepoint", &error.to_string()));
                }
                Err(error) => return Err(error),
            }
        }

        let inner: Vec<MapHandle> =
            (0..shards).map(|_| rings::create(settings.ring_bytes)).collect::<Result<_, _>>()?;
        let rings = Rings::new(maps.get("rings")?, &inner, clock_offset_ns)?;
        let engine = Engine {
            links,
            loaded,
            maps,
            rings,
            ops,
            rules,
            keep_all: settings.keep_all,
            flavour: ladder[0],
            statuses,
            attached_files: HashSet::new(),
            losses: LossReader::new(clock::unix_ns()),
            drained_before: 0,
            clock_offset_ns,
        };
        if !engine.rules.is_empty() {
            for rule in &engine.rules {
                rules::write(engine.maps.get("rules")?, rule, rule.function.slow_ns, engine.keep_all)?;
            }
            engine.set_stacks(settings.stacks)?;
        }
        if let Scope::Cgroup(path) = &settings.scope {
            engine.set_cgroup(path)?;
        }
        Ok(engine)
    }

    pub fn ops(&self) -> &[OpInfo] {
        &self.ops
    }

    pub fn flavour(&self) -> Flavour {
        self.flavour
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

    /// Traces a process, and its children if `follow`.
    pub fn add_target(&self, pid: u32, follow: bool) -> Result<(), LoadError> {
        let flags = if follow { raw::cuda::TARGET_FOLLOW } else { 0 };
        self.maps
            .get("targets")?
            .update(&pid.to_ne_bytes(), &flags.to_ne_bytes(), MapFlags::NO_EXIST)
            .or_else(
                |error| if error.kind() == libbpf_rs::ErrorKind::AlreadyExists { Ok(()) } else { Err(error) },
            )
            .map_err(|error| LoadError::Internal(format!("process {pid} cannot be traced: {error}")))
    }

    /// Traces a process no longer; its children stay as they are.
    pub fn remove_target(&self, pid: u32) -> Result<(), LoadError> {
        match self.maps.get("targets")?.delete(&pid.to_ne_bytes()) {
            Err(error) if error.kind() != libbpf_rs::ErrorKind::NotFound => {
                Err(LoadError::Internal(format!("process {pid} cannot be dropped: {error}")))
            }
            _ => Ok(()),
        }
    }

    pub fn is_target(&self, pid: u32) -> bool {
        self.maps
            .get("targets")
            .is_ok_and(|map| matches!(map.lookup(&pid.to_ne_bytes(), MapFlags::ANY), Ok(Some(_))))
    }

    /// Readable when records have gathered.
    pub fn ready_fd(&self) -> i32 {
        self.rings.ready_fd()
    }

    /// Attaches a library file unless it already is; says what came of it.
    pub fn attach_library(&mut self, file: &LibraryFile) -> Vec<ProbeStatus> {
        if !self.attached_files.insert(file.id) {
            return Vec::new();
        }
        let mut fresh = Vec::new();
        let now = self.now_ns();
        for loaded in &self.loaded {
            if let Attach::Functions(_) = loaded.probe.attach {
                let attached =
                    attach::library(&loaded.object, loaded.probe.name, &self.rules, file, self.flavour, now);
                self.links.extend(attached.links);
                fresh.extend(attached.statuses);
            }
        }
        self.statuses.extend(fresh.iter().cloned());
        fresh
    }

    pub fn is_attached(&self, id: FileId) -> bool {
        self.attached_files.contains(&id)
    }

    /// What counts as slow for an operation from now on.
    pub fn set_slow(&self, op: OpId, slow_ns: u64) -> Result<(), LoadError> {
        for rule in self.rules.iter().filter(|rule| rule.op == op) {
            rules::write(self.maps.get("rules")?, rule, slow_ns, self.keep_all)?;
        }
        Ok(())
    }

    pub fn set_stacks(&self, mode: StackMode) -> Result<(), LoadError> {
        let value = match mode {
            StackMode::Off => raw::cuda::STACKS_OFF,
            StackMode::Auto => raw::cuda::STACKS_AUTO,
            StackMode::On => raw::cuda::STACKS_ON,
        };
        for loaded in &self.loaded {
            if let Attach::Functions(_) = loaded.probe.attach {
                set_variable(loaded.probe.object, &loaded.object, "stack_mode", &value.to_ne_bytes())?;
            }
        }
        Ok(())
    }

    /// Waits until records gathered or the time is up, and takes them.
    pub fn poll(&self, timeout: Duration) -> Batch {
        self.rings.poll(timeout);
        self.rings.take()
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
        let now = self.now_ns();
        batch.losses.extend(self.losses.read(self.maps.get("losses")?, now)?);
        Ok(())
    }

    /// Detaches everything, then takes what is left.
    pub fn detach(&mut self) -> Result<Batch, LoadError> {
        self.links.clear();
        let mut batch = self.poll(Duration::ZERO);
        self.drain_before(&mut batch, u32::MAX)?;
        Ok(batch)
    }

    /// Run counts and times of the loaded programs.
    pub fn program_stats(&self) -> Vec<ProgramStats> {
        self.loaded.iter().flat_map(|loaded| stats::of_object(loaded.probe.name, &loaded.object)).collect()
    }

    fn set_cgroup(&self, path: &std::path::Path) -> Result<(), LoadError> {
        let failed = |reason: String| LoadError::Cgroup { path: path.display().to_string(), reason };
        let folder = std::fs::File::open(path).map_err(|error| failed(error.to_string()))?;
        self.maps
            .get("target_cgroup")?
            .update(&0u32.to_ne_bytes(), &folder.as_raw_fd().to_ne_bytes(), MapFlags::ANY)
            .map_err(|error| failed(format!("{error}; it must be a folder of the unified (v2) hierarchy")))
    }
}

fn load_probe(
    probe: &'static Probe,
    settings: &Settings,
    flavour: Flavour,
    shards: usize,
    maps: &mut SharedMaps,
) -> Result<Object, LoadError> {
    let mut opened = Opened::open(probe.name, probe.object)?;
    if let Attach::Functions(_) = probe.attach {
        let wanted = format!("_{}", flavour.name());
        opened.keep_programs(|name| name.contains(&wanted));
    }
    opened.set_max_entries("rings", shards as u32)?;
    opened.set_constant("ring_mask", &(shards as u32 - 1).to_ne_bytes())?;
    opened.set_constant("ring_wake_bytes", &u64::from(settings.ring_bytes / 8).to_ne_bytes())?;
    let scope = match settings.scope {
        Scope::All => raw::cuda::SCOPE_ALL,
        Scope::Listed => raw::cuda::SCOPE_LISTED,
        Scope::Cgroup(_) => raw::cuda::SCOPE_CGROUP,
    };
    opened.set_constant("target_scope", &scope.to_ne_bytes())?;
    opened.set_constant("switch_has_state", &[u8::from(switch_has_state())])?;
    opened.set_constant("syscall_reasons", &sched::syscall_reasons())?;
    opened.set_constant("futex_syscalls", &sched::futex_wakers())?;
    opened.load(maps)
}

fn attach_tracepoints(
    probe: &Probe,
    object: &Object,
    clock_offset_ns: u64,
    links: &mut Vec<Link>,
    statuses: &mut Vec<ProbeStatus>,
) {
    let Attach::Tracepoints(_) = probe.attach else { return };
    for program in object.progs_mut() {
        let section = program.section().to_string_lossy().into_owned();
        let target = section.rsplit('/').next().unwrap_or_default().to_string();
        let (state, reason) = match program.attach() {
            Ok(link) => {
                links.push(link);
                (ProbeState::Attached, String::new())
            }
            Err(error) => (ProbeState::Refused, said(&error)),
        };
        statuses.push(ProbeStatus {
            probe: probe.name.into(),
            target,
            file: String::new(),
            state,
            flavour: "tracepoint".into(),
            since_ns: clock::monotonic_ns().wrapping_add(clock_offset_ns),
            reason,
        });
    }
}

fn refused(probe: &Probe, flavour: &str, reason: &str) -> ProbeStatus {
    ProbeStatus {
        probe: probe.name.into(),
        target: "*".into(),
        file: String::new(),
        state: ProbeState::Refused,
        flavour: flavour.into(),
        since_ns: clock::unix_ns(),
        reason: reason.into(),
    }
}

fn is_permission(error: &LoadError) -> bool {
    matches!(error, LoadError::NotAllowed(_))
}

/// Whether the context switch's tracepoint has its fourth argument (5.18): BTF knows its prototype.
fn switch_has_state() -> bool {
    use libbpf_rs::btf::Btf;
    use libbpf_rs::btf::types::{FuncProto, Ptr, Typedef};
    let Ok(btf) = Btf::from_vmlinux() else { return false };
    btf.type_by_name::<Typedef<'_>>("btf_trace_sched_switch")
        .and_then(|typedef| Ptr::try_from(typedef.next_type()?).ok())
        .and_then(|pointer| FuncProto::try_from(pointer.next_type()?).ok())
        // The first is the tracepoint's own data.
        .is_some_and(|prototype| prototype.iter().count() >= 5)
}
