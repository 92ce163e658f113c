//! The trace while it runs: waits for records and mappings, moves batches on, attaches what appears, stops cleanly.

use crate::annotating::Annotating;
use crate::callers::Callers;
use crate::census::Census;
use crate::command::Started;
use crate::communicators::Communicators;
use crate::governor::{Action, Governor, budget_of};
use crate::host_events::HostEvents;
use crate::kernel_names::KernelNames;
use crate::neighbours::Neighbours;
use crate::places::Places;
use crate::pollers::Pollers;
use crate::probe_states::ProbeStates;
use crate::pythons::Pythons;
use crate::serving::Serving;
use crate::short::in_short;
use crate::sink::{Sink, session_info};
use crate::stacks::Stacks;
use crate::stuck::Stuck;
use crate::waiting::{WaitingThreads, meet};
use crate::{AgentError, Config, Overview, OwnMeter, Snapshot, Summary, Update, discovery};
use gpuwhy_cause::{Tallies, blame_rows, slow_limit_ns};
use gpuwhy_host::LoadMeter;
use gpuwhy_ledger::Ledger;
use gpuwhy_model::units::duration;
use gpuwhy_model::{
    Batch, Coverage, GpuError, Histogram, InFlight, Level, OpId, ProbeState, ProbeStatus, ProcessEventKind,
    Recording, Waiting,
};
use gpuwhy_probes::{Engine, LibraryFile, Mapped, MappingWatch, Scope, Settings, StackMode};
use std::collections::HashMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

/// The longest the loop sleeps; records and mappings wake it earlier.
const TURN: Duration = Duration::from_millis(50);
const SNAPSHOT_EVERY: Duration = Duration::from_secs(1);
/// How often to look whether another window is over.
const DRAIN_EVERY: Duration = Duration::from_millis(50);
/// How often calls that have not returned are looked for.
const IN_FLIGHT_EVERY: Duration = Duration::from_secs(1);
/// How often it is looked at where threads run and memory lies.
const PLACES_EVERY: Duration = Duration::from_secs(10);
/// Lines of coverage kept for the screen and the summary.
const MOST_SAID: usize = 100;
/// Going through all processes' mappings takes a while on a large host.
const LOOK_EVERY: Duration = Duration::from_secs(1);
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
    stacks: Stacks,
    stuck: Stuck,
    waiting: WaitingThreads,
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
    recording: Option<Recording>,
    load: LoadMeter,
    own: OwnMeter,
    start_ns: u64,
    libraries: usize,
    looked: Instant,
}

impl Run {
    pub(crate) fn start(config: Config, updates: &Sender<Update>) -> Result<Run, AgentError> {
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
        let engine = Engine::load(&settings)?;
        let clock_offset_ns = engine.clock_offset_ns();
        let annotating =
            config.annotate.as_deref().map(|path| Annotating::open(path, clock_offset_ns)).transpose()?;
        let start_ns = engine.now_ns();
        let session = session_info(start_ns, engine.clock_offset_ns(), config.flags.clone());
        let sink = Sink::open(&config.out, &session, engine.ops(), &config.store)?;
        let recording =
            config.record.then(|| Recording { start_ns, ops: engine.ops().to_vec(), ..Recording::default() });
        let trap = gpuwhy_probes::trap_cost_between_work(engine.flavour()).ok();
        let budget = budget_of(config.budget.unwrap_or(1.0), engine.flavour(), trap);
        engine.set_budget(&budget, config.budget.is_some())?;
        let mut run = Run {
            governor: Governor::new(&budget),
            callers: Callers::new(engine.ops()),
            ledger: Ledger::new(engine.ops()),
            names: KernelNames::default(),
            communicators: Communicators::default(),
            pythons: Pythons::default(),
            stacks: Stacks::default(),
            stuck: Stuck::default(),
            waiting: WaitingThreads::default(),
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
            recording,
            load: LoadMeter::default(),
            own: OwnMeter::default(),
            start_ns,
            libraries: 0,
            looked: Instant::now(),
            config,
        };
        match run.begin(updates) {
            Ok(()) => Ok(run),
            Err(error) => {
                run.sink.abandon();
                Err(error)
            }
        }
    }

    /// Attaches what there is and starts the command.
    fn begin(&mut self, updates: &Sender<Update>) -> Result<(), AgentError> {
        self.report(self.engine.statuses().to_vec(), updates)?;
        for pid in &self.config.pids {
            self.engine.add_target(*pid, false)?;
            self.pythons.meet(*pid, &self.engine);
        }
        if let Some(annotating) = &self.annotating {
            let status = annotating.status(std::iter::empty(), self.start_ns);
            self.report(vec![status], updates)?;
        }
        self.follow_old_cgroup()?;
        for file in discovery::at_start(&self.config) {
            self.attach(&file, updates)?;
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
        updates: &Sender<Update>,
    ) -> Result<Summary, AgentError> {
        let began = Instant::now();
        let mut drained = Instant::now();
        let mut shown = Instant::now();
        let mut cgroup_read = Instant::now();
        let mut flights_read = Instant::now();
        let mut places_read: Option<Instant> = None;
        let mut told_to_stop = false;
        loop {
            told_to_stop |= stop.load(Ordering::Relaxed);
            let over = self.config.duration.is_some_and(|duration| began.elapsed() >= duration);
            if told_to_stop || over || self.command.as_mut().is_some_and(Started::has_ended) {
                break;
            }
            self.wait_for_news(updates)?;
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
            }
            self.take_readings(&mut batch, updates)?;
            self.move_on(batch, updates)?;
            if shown.elapsed() >= SNAPSHOT_EVERY {
                shown = Instant::now();
                self.adapt_limits()?;
                let snapshot = self.snapshot();
                let _ = updates.send(Update::Snapshot(Box::new(snapshot)));
            }
            if cgroup_read.elapsed() >= CGROUP_EVERY {
                cgroup_read = Instant::now();
                self.follow_old_cgroup()?;
            }
        }
        self.end(told_to_stop, updates)
    }

    /// Sleeps until records gathered, something was mapped, or the turn is over; attaches what was mapped.
    fn wait_for_news(&mut self, updates: &Sender<Update>) -> Result<(), AgentError> {
        let (mapped, complete) = match &self.watch {
            Some(watch) => watch.wait(self.engine.ready_fd(), TURN),
            None => {
                std::thread::sleep(TURN);
                (Vec::new(), false)
            }
        };
        self.open_mapped(&mapped);
        for mapped in &mapped {
            let library = discovery::of_mapping(mapped, &self.engine, self.config.traces_everyone());
            let Some(file) = library else { continue };
            // A program that loads a GPU library will call it: its interpreter is known before that.
            self.pythons.meet(mapped.pid, &self.engine);
            if !self.engine.is_attached(file.id) && self.attach(&file, updates)? {
                self.report(vec![self.lateness(mapped, &file)], updates)?;
            }
        }
        // Mappings that nobody told of are found by looking, not too often.
        if !complete && self.looked.elapsed() >= LOOK_EVERY {
            self.looked = Instant::now();
            for file in discovery::of_running(&self.config, &self.engine) {
                self.attach(&file, updates)?;
            }
        }
        Ok(())
    }

    /// What stacks are read with is opened while the process lives, which may not be long.
    fn open_mapped(&mut self, mapped: &[Mapped]) {
        let everyone = self.config.traces_everyone();
        for mapped in mapped {
            let is_target = self.engine.is_target(mapped.pid);
            if (is_target || everyone) && self.config.stacks != StackMode::Off {
                self.stacks.see_mapped(mapped.pid, discovery::is_of_library(&mapped.path));
            }
            if is_target {
                self.pythons.see_mapped(mapped.pid, &mapped.path, &self.engine);
            }
        }
    }

    /// A library that was mapped before its probes were in place: calls in between were not seen.
    fn lateness(&self, mapped: &Mapped, file: &LibraryFile) -> ProbeStatus {
        let now = self.engine.now_ns();
        let late_ns = now.saturating_sub(self.engine.unix_ns(mapped.time_ns));
        ProbeStatus {
            probe: file.library.probe().into(),
            target: "*".into(),
            file: file.shown_path.clone(),
            state: ProbeState::Degraded,
            flavour: self.engine.flavour().name().into(),
            since_ns: now,
            reason: format!(
                "attached {} after process {} mapped it; calls it made before that were not seen",
                duration(late_ns),
                mapped.pid
            ),
        }
    }

    /// Whether anything of it could be attached.
    fn attach(&mut self, file: &LibraryFile, updates: &Sender<Update>) -> Result<bool, AgentError> {
        let statuses = self.engine.attach_library(file);
        let attached = statuses.iter().any(|status| status.state.works());
        self.libraries += usize::from(attached);
        self.report(statuses, updates)?;
        Ok(attached)
    }

    fn report(&mut self, statuses: Vec<ProbeStatus>, updates: &Sender<Update>) -> Result<(), AgentError> {
        if statuses.is_empty() {
            return Ok(());
        }
        for status in &statuses {
            self.states.take(status);
            let said = match status.state {
                ProbeState::Degraded => &mut self.coverage.degraded,
                ProbeState::Refused => &mut self.coverage.unattached,
                ProbeState::Attached | ProbeState::Absent => continue,
            };
            let line = format!("{} {} {}: {}", status.probe, status.target, status.file, status.reason);
            // All of them are in the file; what is said with every answer is said once and has an end.
            if said.len() < MOST_SAID && !said.contains(&line) {
                said.push(line);
            }
        }
        let short = in_short(&statuses);
        self.sink.write_probes(statuses)?;
        let _ = updates.send(Update::Attached(short));
        Ok(())
    }

    /// Members of a cgroup of the old hierarchy; those of the unified one the kernel tells by itself.
    fn follow_old_cgroup(&self) -> Result<(), AgentError> {
        if let Some(folder) = self.config.cgroup.as_deref().filter(|folder| !is_unified(folder)) {
            for pid in gpuwhy_host::processes_in(folder).unwrap_or_default() {
                self.engine.add_target(pid, true)?;
            }
        }
        Ok(())
    }

    /// Interpreters whose stacks cannot be read.
    fn report_pythons(&mut self, updates: &Sender<Update>) -> Result<(), AgentError> {
        let now = self.engine.now_ns();
        let status = |reason: String| ProbeStatus {
            probe: "python".into(),
            target: "*".into(),
            file: String::new(),
            state: ProbeState::Degraded,
            flavour: String::new(),
            since_ns: now,
            reason: format!("no Python frames: {reason}"),
        };
        let statuses = self.pythons.troubles().into_iter().map(status).collect();
        self.report(statuses, updates)
    }

    /// What the pollers read meanwhile.
    fn take_readings(&mut self, batch: &mut Batch, updates: &Sender<Update>) -> Result<(), AgentError> {
        for reading in self.pollers.take() {
            self.report(reading.statuses, updates)?;
            self.gpus.extend(reading.gpus);
            batch.gpu_samples.extend(reading.samples);
            // The driver's tracepoint tells the same with its own words.
            let told = |error: &GpuError| error.event == "xid" && self.has_xid_tracepoint();
            batch.gpu_errors.extend(reading.errors.into_iter().filter(|error| !told(error)));
            batch.rdma_events.extend(reading.fabric);
        }
        if let Some(annotating) = &self.annotating {
            annotating.take(batch, self.engine.now_ns());
        }
        if let Some(serving) = &self.serving {
            let statuses = serving.take(batch);
            self.report(statuses, updates)?;
        }
        Ok(())
    }

    fn has_xid_tracepoint(&self) -> bool {
        let statuses = self.engine.statuses();
        statuses.iter().any(|status| status.probe == "xid" && status.state == ProbeState::Attached)
    }

    fn look_at_places(&mut self, batch: &mut Batch) {
        batch.thread_places = self.places.changed(self.engine.thread_places());
        let living = self.census.by_pid().values().filter(|process| process.end_ns.is_none());
        self.places.ask(living.map(|process| (process.pid, self.gpus.get(&process.pid).copied())));
    }

    /// Does what keeps the cost within its budget, and says so.
    fn govern(&mut self, batch: &mut Batch, updates: &Sender<Update>) -> Result<(), AgentError> {
        let now = self.engine.now_ns();
        let mut actions = self.governor.take(&batch.level_changes, now);
        actions.extend(self.governor.due(now));
        batch.level_changes.clear();
        for action in actions {
            let statuses = match action {
                Action::Detach { function: (rule, library), pid } => {
                    let reason =
                        format!("process {pid} calls it too often for its budget: detached for a while");
                    self.engine.detach_function(rule, library, &reason)
                }
                Action::Attach { function: (rule, library) } => self.engine.reattach_function(rule, library),
                Action::Tell { pid, level } => vec![ProbeStatus {
                    probe: "governor".into(),
                    target: format!("process {pid}"),
                    file: String::new(),
                    state: if level == Level::Full { ProbeState::Attached } else { ProbeState::Degraded },
                    flavour: String::new(),
                    since_ns: now,
                    reason: level.about().into(),
                }],
            };
            batch.watch_changes.extend(statuses.iter().cloned());
            self.report(statuses, updates)?;
        }
        batch.bills = self.governor.bills(&batch.windows);
        Ok(())
    }

    /// What the kernel could not know: how a call was made, on which of the host's GPUs, as which rank.
    fn complete(&mut self, batch: &mut Batch) {
        self.pythons.follow(batch, &self.engine);
        self.stacks.complete(batch, &mut self.pythons);
        if self.config.stacks != StackMode::Off {
            let read = |call: &InFlight| self.pythons.frames_in(call.pid, call.tid, call.thread_pointer);
            self.stuck.complete(batch, read, || self.engine.in_flight());
            if self.pythons.are_known() && self.waiting.is_due() {
                let read = |wait: &Waiting| self.pythons.frames_in(wait.pid, wait.tid, wait.thread_pointer);
                meet(batch, read, || self.engine.waiting());
            }
        }
        self.host_events.complete(batch, self.census.by_pid());
        self.neighbours.take(batch, self.census.by_pid(), self.engine.now_ns());
        batch.memory_places.extend(self.places.answers());
        self.callers.tell_via(&mut batch.calls);
        KernelNames::check(&mut batch.calls);
        self.communicators.complete(&mut batch.nccl_calls, &self.engine);
        if let Some(calls) = &mut batch.in_flight {
            self.communicators.complete_in_flight(calls);
        }
        for call in &mut batch.calls {
            if let Some(gpu) = self.gpus.get(&call.pid) {
                call.device = Some(*gpu);
            }
        }
        let libraries = self.engine.libraries();
        batch.libraries.extend(libraries.iter().skip(self.libraries_written).cloned());
        self.libraries_written = libraries.len();
    }

    /// A batch's way through census, tallies and ledger into the store.
    fn move_on(&mut self, mut batch: Batch, updates: &Sender<Update>) -> Result<(), AgentError> {
        let own = std::process::id();
        batch.process_events.retain(|event| event.pid != own);
        let forgotten = self.census.take(&mut batch);
        for event in batch.process_events.iter().filter(|event| event.kind == ProcessEventKind::Exit) {
            self.gpus.remove(&event.pid);
            self.governor.forget(event.pid);
        }
        self.govern(&mut batch, updates)?;
        self.complete(&mut batch);
        self.report_pythons(updates)?;
        self.census.take_ranks(&mut batch);
        if batch.is_empty() {
            return Ok(());
        }
        self.tallies.add(&batch);
        // Late windows of theirs would come back as processes of their own: the next batch has them by then.
        self.tallies.forget(&std::mem::replace(&mut self.forgotten, forgotten));
        for window in &batch.windows {
            self.history.entry(window.op).or_default().merge(&window.hist);
            self.coverage.sampled += window.count.saturating_sub(window.kept);
        }
        self.coverage.lost += batch.losses.iter().map(|loss| loss.count).sum::<u64>();
        let mut facts = self.ledger.take(&batch);
        facts.blame = blame_rows(&batch.windows, &batch.waits, self.engine.ops());
        self.names.find(&self.engine, &mut self.ledger);
        self.overview.take(&batch, &facts);
        if let Some(recording) = &mut self.recording {
            recording.batches.push(batch.clone());
        }
        if self.config.watch_batches {
            let _ = updates.send(Update::Batch(Box::new((batch.clone(), facts.clone()))));
        }
        self.sink.write(batch, facts)?;
        Ok(())
    }

    /// Tells the kernel what is slow, where that has changed by more than a fifth.
    fn adapt_limits(&mut self) -> Result<(), AgentError> {
        for (op, history) in &self.history {
            let Some(limit) = slow_limit_ns(history) else { continue };
            let last = self.limits.get(op).copied().unwrap_or(0);
            if limit.abs_diff(last) > last / 5 {
                self.engine.set_slow(*op, limit)?;
                self.limits.insert(*op, limit);
            }
        }
        Ok(())
    }

    fn snapshot(&mut self) -> Snapshot {
        Snapshot {
            now_ns: self.engine.now_ns(),
            start_ns: self.start_ns,
            tallies: self.tallies.clone(),
            processes: self.census.processes(),
            processes_seen: self.census.count(),
            coverage: self.coverage.clone(),
            load: self.load.read(),
            own: self.own.read(),
            records: self.engine.record_counts().0,
            libraries: self.libraries,
            probes: self.states.counts(),
            overview: self.overview.clone(),
        }
    }

    /// What was sent until now, and how much of all of it was not taken.
    fn end_annotations(&mut self, batch: &mut Batch, updates: &Sender<Update>) -> Result<(), AgentError> {
        let Some(mut annotating) = self.annotating.take() else { return Ok(()) };
        annotating.finish(batch, self.engine.now_ns());
        let refused = self.overview.refused_annotations.iter().chain(&batch.refused_annotations);
        let status = annotating.status(refused, self.engine.now_ns());
        self.report(vec![status], updates)
    }

    fn end(mut self, told_to_stop: bool, updates: &Sender<Update>) -> Result<Summary, AgentError> {
        if told_to_stop && let Some(command) = &mut self.command {
            command.terminate();
        }
        let end_ns = self.engine.now_ns();
        let (programs, load_times) = (self.engine.program_stats(), self.engine.load_times());
        let mut last = self.engine.detach()?;
        self.look_at_places(&mut last);
        self.take_readings(&mut last, updates)?;
        self.end_annotations(&mut last, updates)?;
        self.move_on(last, updates)?;
        let mut named = Batch { processes: self.census.settle(), ..Batch::default() };
        self.stacks.finish(&mut named);
        self.move_on(named, updates)?;
        let snapshot = self.snapshot();
        self.sink.finish(end_ns)?;
        // A command outlives a trace that was only to take so long.
        let command_status = match &mut self.command {
            Some(command) if !told_to_stop => command.wait(),
            Some(command) => command.status(),
            None => None,
        };
        if let Some(recording) = &mut self.recording {
            recording.end_ns = end_ns;
        }
        Ok(Summary {
            file: self.config.out,
            last: snapshot,
            ops: self.engine.ops().to_vec(),
            command_status,
            recording: self.recording,
            programs,
            load_times,
        })
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
