//! The trace while it runs: waits for records and mappings, moves batches on, attaches what appears, stops cleanly.

mod attaching;
mod ending;
mod moving;
mod starting;

use crate::annotating::Annotating;
use crate::between::Looks;
use crate::callers::Callers;
use crate::census::Census;
use crate::command::Started;
use crate::communicators::Communicators;
use crate::deaths::Deaths;
use crate::foresight::Foresight;
use crate::governor::{Governor, budget_of};
use crate::host_events::HostEvents;
use crate::kernel_names::KernelNames;
use crate::neighbours::Neighbours;
use crate::places::Places;
use crate::pollers::Pollers;
use crate::preparing::{Preparer, SharedKnown};
use crate::probe_states::ProbeStates;
use crate::pythons::Pythons;
use crate::reader::Reader;
use crate::serving::Serving;
use crate::shares::Shares;
use crate::silent::Silent;
use crate::sink::Sink;
use crate::stacks::Stacks;
use crate::stuck::Stuck;
use crate::updates::Outbox;
use crate::wakers::Wakers;
use crate::{AgentError, Config, Overview, OwnMeter, Summary, Update, discovery, own};
use gpuwhy_cause::Tallies;
use gpuwhy_host::LoadMeter;
use gpuwhy_ledger::Ledger;
use gpuwhy_model::{Batch, Coverage, Histogram, OpId, Recording};
use gpuwhy_probes::{Engine, LibraryFile, MappingWatch, Scope, Settings};
use gpuwhy_proc::FileId;
use starting::Starting;
use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const SNAPSHOT_EVERY: Duration = Duration::from_secs(1);
/// How often to look whether another window is over.
const DRAIN_EVERY: Duration = Duration::from_millis(50);
/// How often calls that have not returned are looked for.
const IN_FLIGHT_EVERY: Duration = Duration::from_secs(1);
/// How often it is looked at where threads run and memory lies.
const PLACES_EVERY: Duration = Duration::from_secs(10);
/// For cgroups of the old hierarchy, whose members only a look tells.
const CGROUP_EVERY: Duration = Duration::from_millis(200);

/// The trace while it runs, all within the agent's thread.
pub(crate) struct Run {
    config: Config,
    engine: Engine,
    watch: Option<MappingWatch>,
    sink: Sink,
    command: Option<Started>,
    census: Census,
    callers: Callers,
    ledger: Ledger,
    names: KernelNames,
    communicators: Communicators,
    pythons: Pythons,
    reader: Reader,
    stacks: Stacks,
    stuck: Stuck,
    looks: Looks,
    silent: Silent,
    wakers: Wakers,
    /// Targets have come whose threads are not followed yet.
    has_new_targets: bool,
    threads_followed: Option<Instant>,
    host_events: HostEvents,
    neighbours: Neighbours,
    places: Places,
    pollers: Pollers,
    annotating: Option<Annotating>,
    serving: Option<Serving>,
    governor: Governor,
    /// The GPU of each process that uses exactly one, as the driver tells.
    gpus: HashMap<u32, u16>,
    overview: Overview,
    libraries_written: usize,
    /// Ended processes whose last windows may still come.
    forgotten: Vec<u32>,
    tallies: Tallies,
    history: HashMap<OpId, Histogram>,
    limits: HashMap<OpId, u64>,
    coverage: Coverage,
    states: ProbeStates,
    deaths: Deaths,
    recording: Option<Recording>,
    load: LoadMeter,
    own: OwnMeter,
    start_ns: u64,
    libraries: usize,
    shares: Shares,
    /// Files of which it was said that they were attached late.
    late: HashSet<FileId>,
    preparer: Preparer,
    foresight: Foresight,
    known: SharedKnown,
    looked: Instant,
}

impl Run {
    pub(crate) fn start(config: Config, updates: &Outbox) -> Result<Run, AgentError> {
        if let Some(pid) = config.pids.iter().find(|pid| !gpuwhy_host::exists(**pid)) {
            return Err(AgentError::NoProcess(*pid));
        }
        if let Some(folder) = &config.cgroup {
            gpuwhy_host::processes_in(folder).map_err(|error| AgentError::Cgroup {
                path: folder.display().to_string(),
                reason: error.to_string(),
            })?;
        }
        let settings = Settings {
            probes: config.probes.clone(),
            scope: scope_of(&config),
            stacks: config.stacks,
            keep_all: config.keep_all,
            flavour: config.flavour,
            devices: discovery::driver_devices(&config),
            driver_functions: config.driver_functions.clone(),
            ..Settings::default()
        };
        own::raise_descriptor_limit();
        gpuwhy_probes::return_freed_memory();
        let Starting { engine, mut sink, found, known } = Starting::begin(&config, settings)?;
        let clock_offset_ns = engine.clock_offset_ns();
        let annotating =
            config.annotate.as_deref().map(|path| Annotating::open(path, clock_offset_ns)).transpose();
        let annotating = match annotating {
            Ok(annotating) => annotating,
            Err(error) => {
                sink.abandon();
                return Err(error);
            }
        };
        let start_ns = engine.now_ns();
        sink.start_at(start_ns, clock_offset_ns)?;
        let recording =
            config.record.then(|| Recording { start_ns, ops: engine.ops().to_vec(), ..Recording::default() });
        let budget = budget_of(config.budget.unwrap_or(1.0), engine.flavour(), engine.trap_cost());
        engine.set_budget(&budget, config.budget.is_some())?;
        let mut run = Run {
            governor: Governor::new(config.budget, engine.ops(), start_ns, start_ns),
            callers: Callers::new(engine.ops()),
            ledger: Ledger::new(engine.ops()),
            names: KernelNames::default(),
            communicators: Communicators::default(),
            pythons: Pythons::default(),
            reader: Reader::start(),
            stacks: Stacks::default(),
            stuck: Stuck::default(),
            looks: Looks::default(),
            silent: Silent::default(),
            wakers: Wakers::default(),
            has_new_targets: false,
            threads_followed: None,
            host_events: HostEvents::default(),
            neighbours: Neighbours::default(),
            places: Places::start(move || gpuwhy_probes::now_ns(clock_offset_ns)),
            pollers: Pollers::start(config.nvml.clone(), move || gpuwhy_probes::now_ns(clock_offset_ns)),
            annotating,
            serving: config
                .servers
                .clone()
                .map(|wanted| Serving::start(wanted, move || gpuwhy_probes::now_ns(clock_offset_ns))),
            gpus: HashMap::new(),
            overview: Overview::default(),
            libraries_written: 0,
            watch: MappingWatch::open().ok(),
            engine,
            sink,
            command: None,
            census: Census::default(),
            forgotten: Vec::new(),
            tallies: Tallies::default(),
            history: HashMap::new(),
            limits: HashMap::new(),
            coverage: Coverage::default(),
            states: ProbeStates::default(),
            deaths: Deaths::from_now(),
            recording,
            load: LoadMeter::default(),
            own: OwnMeter::default(),
            start_ns,
            libraries: 0,
            shares: Shares::default(),
            late: HashSet::new(),
            preparer: Preparer::start(Arc::clone(&known)),
            foresight: Foresight::start(Arc::clone(&known)),
            known,
            looked: Instant::now(),
            config,
        };
        match run.begin(found, updates) {
            Ok(()) => Ok(run),
            Err(error) => {
                run.sink.abandon();
                Err(error)
            }
        }
    }

    /// Attaches what there is and starts the command.
    fn begin(&mut self, found: Vec<LibraryFile>, updates: &Outbox) -> Result<(), AgentError> {
        let watched = self.governor.start();
        self.act(watched, &mut Batch::default(), updates)?;
        self.report(self.engine.statuses().to_vec(), updates)?;
        for pid in &self.config.pids {
            self.engine.add_target(*pid, false)?;
            self.pythons.see(*pid, &self.engine);
            self.has_new_targets = true;
        }
        if let Some(annotating) = &self.annotating {
            let status = annotating.status(std::iter::empty(), self.start_ns);
            self.report(vec![status], updates)?;
        }
        self.follow_old_cgroup()?;
        self.follow_threads();
        for file in found {
            self.attach(&file, updates)?;
        }
        for pid in self.config.pids.clone() {
            self.foresee_from(pid);
        }
        if let Some(words) = self.config.command.clone() {
            self.command = Some(Started::start(&words, &self.config, &self.engine)?);
        }
        self.load.read();
        // A watcher that is gone changes nothing here or below.
        let _ = updates.send(Update::Started {
            start_ns: self.start_ns,
            ops: self.engine.ops().to_vec(),
            flavour: self.engine.flavour().name(),
            command_pid: self.command.as_ref().map(Started::pid),
        });
        Ok(())
    }

    pub(crate) fn until_stopped(
        mut self,
        stop: &AtomicBool,
        updates: &Outbox,
    ) -> Result<Summary, AgentError> {
        let began = Instant::now();
        let mut drained = Instant::now();
        let mut shown = Instant::now();
        let mut cgroup_read = Instant::now();
        let mut flights_read = Instant::now();
        let mut places_read: Option<Instant> = None;
        let mut asked_to_stop = false;
        loop {
            asked_to_stop |= stop.load(Ordering::Relaxed);
            let over = self.config.duration.is_some_and(|duration| began.elapsed() >= duration);
            if asked_to_stop || over || self.command.as_mut().is_some_and(Started::has_ended) {
                break;
            }
            self.wait_for_news(updates)?;
            self.follow_threads();
            std::thread::sleep(self.reader.pause());
            let mut batch = self.engine.poll(Duration::ZERO);
            if drained.elapsed() >= DRAIN_EVERY {
                self.engine.drain(&mut batch)?;
                drained = Instant::now();
            }
            if flights_read.elapsed() >= IN_FLIGHT_EVERY {
                flights_read = Instant::now();
                batch.in_flight = self.engine.in_flight();
            }
            if places_read.is_none_or(|read| read.elapsed() >= PLACES_EVERY) {
                places_read = Some(Instant::now());
                self.look_at_places(&mut batch);
                self.release_libraries();
            }
            self.take_readings(&mut batch, updates)?;
            self.move_on(batch, updates)?;
            if shown.elapsed() >= SNAPSHOT_EVERY {
                shown = Instant::now();
                self.adapt_limits()?;
                self.report_deaths(updates)?;
                let snapshot = self.snapshot();
                let _ = updates.send(Update::Snapshot(Box::new(snapshot)));
            }
            if cgroup_read.elapsed() >= CGROUP_EVERY {
                cgroup_read = Instant::now();
                self.follow_old_cgroup()?;
            }
        }
        self.end(asked_to_stop, updates)
    }
}

fn scope_of(config: &Config) -> Scope {
    match &config.cgroup {
        Some(folder) if is_unified(folder) => Scope::Cgroup(folder.clone()),
        Some(_) => Scope::Listed,
        None if config.traces_everyone() => Scope::All,
        None => Scope::Listed,
    }
}

/// Folders of the unified hierarchy all have this file.
fn is_unified(folder: &Path) -> bool {
    folder.join("cgroup.controllers").exists()
}
