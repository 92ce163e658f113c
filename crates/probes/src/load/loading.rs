//! Loads the probes' programs: the kind of probe the kernel takes, shared maps, constants, tracepoints.

use super::attach::Flavour;
use super::engine::{Engine, Later, Loaded};
use super::loss::LossReader;
use super::object::{Opened, SharedMaps};
use super::rings::{self, Rings};
use super::rules::{self, Rule};
use super::slots::Slots;
use super::{LoadError, Scope, Settings, clock, features, kernel_types, tracepoints};
use crate::probe::{Attach, Library, Probe, op_infos};
use crate::{driver, raw, sched};
use gpuwhy_model::{ProbeState, ProbeStatus};
use libbpf_rs::Object;
use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

impl Engine {
    /// Loads the probes and attaches the tracepoints; libraries are attached as they are found.
    pub fn load(settings: &Settings) -> Result<Engine, LoadError> {
        raise_file_limit();
        if !std::path::Path::new("/sys/kernel/btf/vmlinux").exists() {
            return Err(LoadError::NoBtf);
        }
        let (mut ladder, trap_cost) = match settings.flavour {
            Some(flavour) => (vec![flavour], features::trap_cost_between_work(flavour).ok()),
            None => features::ladder()
                .map(|(ladder, cost)| (ladder, Some(cost)))
                .map_err(LoadError::NotAllowed)?,
        };
        let cpus = libbpf_rs::num_possible_cpus().map_err(|error| LoadError::load("cpus", &error))?;
        let shards = rings::shards_for(cpus);
        let ops = op_infos(&settings.probes);
        let rules = rules::all(&settings.probes, &ops);
        let clock_offset_ns = clock::offset_ns();

        let mut maps = SharedMaps::default();
        let mut loaded = Vec::new();
        let mut placed = Vec::new();
        let mut statuses = Vec::new();
        let mut walks = HashMap::new();
        let mut rings = None;
        let (first, later) = now_and_later(&settings.probes, &settings.libraries);
        let (first, without_device) =
            first.into_iter().partition::<Vec<_>, _>(|probe| has_place(probe, settings));
        statuses.extend(without_device.into_iter().map(no_device));
        for Loading { probe, mut result, mut load_time } in
            load_together(&first, settings, &rules, ladder[0], shards, &maps)
        {
            // A kernel may attach a kind of probe and yet refuse the real program: then the next kind.
            while let Err(LoadError::Refused { reason, .. }) = &result
                && matches!(probe.attach, Attach::Functions(_))
                && ladder.len() > 1
            {
                let began = Instant::now();
                statuses.push(refused(probe, ladder[0].name(), reason));
                ladder.remove(0);
                result = load_probe(probe, settings, &rules, ladder[0], shards, &maps);
                load_time += began.elapsed();
            }
            match result {
                Ok(object) => {
                    maps.take_over(probe.name, &object)?;
                    // Nothing may fire before there is a place for what it has to say.
                    if rings.is_none()
                        && let Ok(outer) = maps.get("rings")
                    {
                        rings = Some(Rings::make(outer, shards, settings.ring_bytes, clock_offset_ns)?);
                    }
                    if !matches!(probe.attach, Attach::Functions(_)) {
                        let attached = tracepoints::attach(probe, &object, settings, clock_offset_ns);
                        placed.extend(attached.placed);
                        statuses.extend(attached.statuses);
                        walks.extend(attached.walks);
                    }
                    loaded.push(Loaded { probe, object, load_time });
                }
                // Tracing goes on without the kernel's side of the story; nothing works without the calls.
                Err(error) if !matches!(probe.attach, Attach::Functions(_)) && !is_permission(&error) => {
                    statuses.push(refused(probe, "tracepoint", &error.to_string()));
                }
                Err(LoadError::Refused { .. }) if !features::has_cookies() => {
                    return Err(LoadError::TooOld);
                }
                Err(error) => return Err(error),
            }
        }

        let rings = rings.ok_or_else(|| LoadError::Internal("no probe has the rings".into()))?;
        let mut engine = Engine {
            placed,
            groups: Vec::new(),
            loaded,
            later: Later { settings: settings.clone(), shards, probes: later, loading: HashMap::new() },
            maps,
            rings,
            ops,
            rules,
            keep_all: settings.keep_all,
            stacks: settings.stacks,
            // Of another kind nothing is known.
            trap_cost: trap_cost.filter(|cost| cost.flavour == ladder[0]),
            flavour: ladder[0],
            detached: HashSet::new(),
            gone_ns: HashMap::new(),
            ready: None,
            statuses,
            attached_files: HashMap::new(),
            libraries: Vec::new(),
            library_files: Vec::new(),
            losses: LossReader::new(clock::unix_ns()),
            slots: Slots::default(),
            walks,
            ended: Vec::new(),
            drained_before: 0,
            clock_offset_ns,
        };
        // Without a probe of calls there is nobody to read them.
        if let Ok(map) = engine.maps.get("rules") {
            for rule in &engine.rules {
                rules::write(map, rule, rule.function.slow_ns, engine.keep_all)?;
            }
            engine.write_nccl_rules()?;
        }
        engine.open_all_slices()?;
        engine.set_stacks(settings.stacks)?;
        if let Scope::Cgroup(path) = &settings.scope {
            engine.set_cgroup(path)?;
        }
        Ok(engine)
    }
}

/// The first probe on functions is loaded at once, which tells whether the kernel lets us, and those whose libraries are
/// there; the others when their library turns up: most hosts have one vendor's.
fn now_and_later(
    probes: &[&'static Probe],
    libraries: &[Library],
) -> (Vec<&'static Probe>, Vec<&'static Probe>) {
    let is_functions = |probe: &Probe| matches!(probe.attach, Attach::Functions(_));
    let first = probes.iter().find(|probe| is_functions(probe)).map(|probe| probe.name);
    let is_there = |probe: &Probe| libraries.iter().any(|library| library.probe() == probe.name);
    probes.iter().partition(|probe| !is_functions(probe) || Some(probe.name) == first || is_there(probe))
}

/// Without a device to look for, every ioctl of the host would be looked at for nothing.
fn has_place(probe: &Probe, settings: &Settings) -> bool {
    !matches!(probe.attach, Attach::Devices(_))
        || !settings.devices.is_empty()
        || !settings.driver_functions.is_empty()
}

fn no_device(probe: &Probe) -> ProbeStatus {
    ProbeStatus {
        state: ProbeState::Absent,
        ..refused(probe, "tracepoint", "this host has no GPU driver's device file")
    }
}

/// A probe, and what came of loading it.
struct Loading {
    probe: &'static Probe,
    result: Result<Object, LoadError>,
    load_time: Duration,
}

/// Loads probes side by side, and gives them in their order. The one on functions takes longest, and so goes first.
fn load_together(
    probes: &[&'static Probe],
    settings: &Settings,
    rules: &[Rule],
    flavour: Flavour,
    shards: usize,
    maps: &SharedMaps,
) -> Vec<Loading> {
    let mut order: Vec<(usize, &'static Probe)> = probes.iter().copied().enumerate().collect();
    order.sort_by_key(|(_, probe)| !matches!(probe.attach, Attach::Functions(_)));
    std::thread::scope(|scope| {
        let mut threads: Vec<_> = order
            .into_iter()
            .map(|(place, probe)| {
                let load = move || {
                    let began = Instant::now();
                    let result = load_probe(probe, settings, rules, flavour, shards, maps);
                    Loading { probe, result, load_time: began.elapsed() }
                };
                (place, probe, scope.spawn(load))
            })
            .collect();
        threads.sort_by_key(|(place, ..)| *place);
        let ended = threads.into_iter().map(|(_, probe, thread)| {
            let failed = || LoadError::Internal(format!("loading {} panicked", probe.name));
            thread.join().unwrap_or_else(|_| Loading {
                probe,
                result: Err(failed()),
                load_time: Duration::ZERO,
            })
        });
        ended.collect()
    })
}

pub(super) fn load_probe(
    probe: &'static Probe,
    settings: &Settings,
    rules: &[Rule],
    flavour: Flavour,
    shards: usize,
    maps: &SharedMaps,
) -> Result<Object, LoadError> {
    let mut opened = Opened::open(probe.name, probe.object)?;
    if let Attach::Functions(_) = probe.attach {
        let wanted = format!("_{}", flavour.name());
        opened.keep_programs(|name| name.contains(&wanted));
    }
    if let Attach::Devices(_) = probe.attach {
        let twins = tracepoints::has_kprobes();
        opened.keep_programs(|name| twins || !name.starts_with("on_function"));
    }
    opened.leave_out_absent(kernel_types::has_tracepoint);
    opened.set_max_entries("rings", shards as u32)?;
    opened.set_constant("ring_mask", &(shards as u32 - 1).to_ne_bytes())?;
    opened.set_constant("ring_wake_bytes", &u64::from(settings.ring_bytes / 8).to_ne_bytes())?;
    let scope = match settings.scope {
        Scope::All => raw::cuda::SCOPE_ALL,
        Scope::Listed => raw::cuda::SCOPE_LISTED,
        Scope::Cgroup(_) => raw::cuda::SCOPE_CGROUP,
    };
    opened.set_constant("target_scope", &scope.to_ne_bytes())?;
    opened.set_constant("own_tgid", &std::process::id().to_ne_bytes())?;
    opened.set_constant("switch_has_state", &[u8::from(kernel_types::switch_has_state())])?;
    let sees_other_cpus = kernel_types::kernel_version() >= (5, 19);
    opened.set_constant("sees_other_cpus", &[u8::from(sees_other_cpus)])?;
    opened.set_constant("keeps_cpu", &[u8::from(kernel_types::can_keep_cpu())])?;
    opened.set_constant("syscall_reasons", &sched::syscall_reasons())?;
    opened.set_constant("futex_syscalls", &sched::futex_wakers())?;
    let rule_of =
        |op: &str| rules.iter().find(|rule| rule.function.op() == op).map(|rule| u32::from(rule.number));
    opened.set_constant("devices", &driver::table(&settings.devices, rule_of))?;
    opened.load(maps)
}

pub(super) fn refused(probe: &Probe, flavour: &str, reason: &str) -> ProbeStatus {
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

/// Kernels without multi probes need two descriptors a function.
fn raise_file_limit() {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the pointer is to a limit of ours.
    if unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) } == 0 {
        limit.rlim_cur = limit.rlim_max;
        // SAFETY: as above; where it is refused, the old limit stands.
        unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) };
    }
}

fn is_permission(error: &LoadError) -> bool {
    matches!(error, LoadError::NotAllowed(_))
}
