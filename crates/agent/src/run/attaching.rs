//! Finds libraries as they are mapped, attaches to them, and tells what could be attached.

use super::{Run, is_unified};
use crate::command::Started;
use crate::preparing::lock;
use crate::shares::Admission;
use crate::short::in_short;
use crate::updates::Outbox;
use crate::wakers::MAX_WAKERS;
use crate::{AgentError, Update, discovery};
use gpuwhy_model::units::duration;
use gpuwhy_model::{Batch, ProbeState, ProbeStatus};
use gpuwhy_probes::{Library, LibraryFile, Mapped, StackMode};
use gpuwhy_proc::{FileId, Maps};
use std::time::{Duration, Instant};

/// The longest the loop sleeps; records and mappings wake it earlier.
const TURN: Duration = Duration::from_millis(50);
/// Less would be no sleep at all.
const MIN_TURN: Duration = Duration::from_millis(1);
/// Lines of coverage kept for the screen and the summary.
const MAX_MESSAGES: usize = 100;
/// Going through all processes' mappings takes a while on a large host.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Threads of new targets are followed no more often than this.
const FOLLOW_EVERY: Duration = Duration::from_millis(250);

impl Run {
    /// Sleeps until records gathered, something was mapped, or the turn is over; attaches what was mapped.
    pub(super) fn wait_for_news(&mut self, updates: &Outbox) -> Result<(), AgentError> {
        let now_ns = self.engine.now_ns();
        let slice =
            self.governor.next_ns().map(|next_ns| Duration::from_nanos(next_ns.saturating_sub(now_ns)));
        let look = self.sees_threads().then(|| self.looks.pause(Instant::now()));
        let turn = slice.into_iter().chain(look).fold(TURN, Duration::min).max(MIN_TURN);
        let (mapped, complete) = match &self.watch {
            Some(watch) => {
                let ended = self.command.as_ref().and_then(Started::end_fd);
                let others = [Some(self.engine.ready_fd()), ended, self.foresight.ready_fd()];
                watch.wait(&others.into_iter().flatten().collect::<Vec<_>>(), turn)
            }
            None => {
                std::thread::sleep(turn);
                (Vec::new(), false)
            }
        };
        // Attached before anything else is looked at: the program is about to call it.
        let library_of = |mapped: &&Mapped| Library::of_file_name(mapped.mapping.name());
        let mut libraries: Vec<&Mapped> =
            mapped.iter().filter(|mapped| library_of(mapped).is_some()).collect();
        libraries.sort_by_key(|mapped| library_of(mapped).map(discovery::turn));
        for mapped in libraries {
            if self.is_traced(mapped.pid) {
                self.attach_mapped(mapped, updates)?;
            }
        }
        for file in self.foresight.take() {
            self.attach(&file, updates)?;
        }
        self.open_mapped(&mapped);
        // Mappings that nobody told of are found by looking, not too often.
        if !complete && self.looked.elapsed() >= LOOK_EVERY {
            self.looked = Instant::now();
            for file in discovery::of_running(&self.config, &self.engine) {
                self.attach(&file, updates)?;
            }
        }
        Ok(())
    }

    fn is_traced(&self, pid: u32) -> bool {
        self.config.traces_everyone() || self.engine.is_target(pid)
    }

    /// A process has mapped a library. One that is attached is not opened again, however many processes map it.
    fn attach_mapped(&mut self, mapped: &Mapped, updates: &Outbox) -> Result<(), AgentError> {
        let mut id = mapped.mapping.file;
        if self.engine.is_attached(id) {
            self.shares.map(id, mapped.pid);
        } else if let Some(mut file) = discovery::of_mapping(mapped) {
            id = file.file.id();
            if !self.engine.is_attached(id) {
                self.preparer.prepare(&mut file);
            }
            self.attach(&file, updates)?;
        }
        self.census.see(mapped.pid);
        self.report_lateness(mapped, id, updates)
    }

    /// Libraries that a process may map later, by what it maps now.
    pub(super) fn foresee_from(&mut self, pid: u32) {
        let Ok(maps) = Maps::of(pid) else { return };
        for mapping in maps.iter().filter(|mapping| mapping.executable && mapping.is_file()) {
            self.foresight.see(pid, &mapping.path);
        }
    }

    /// Whether threads are looked at between their calls.
    pub(super) fn sees_threads(&self) -> bool {
        self.config.stacks != StackMode::Off && self.pythons.are_known()
    }

    /// What stacks are read with is opened while the process lives, which may not be long.
    fn open_mapped(&mut self, mapped: &[Mapped]) {
        let everyone = self.config.traces_everyone();
        for mapped in mapped {
            let is_target = self.engine.is_target(mapped.pid);
            let is_library = discovery::is_library(mapped.mapping.name());
            if is_target || everyone {
                if self.foresight.see(mapped.pid, &mapped.mapping.path) {
                    self.engine.expect_collectives();
                }
                if self.config.stacks != StackMode::Off {
                    self.stacks.see_mapped(mapped.pid, is_library);
                }
            }
            // A program that loads a GPU library will call it: its interpreter is known before that.
            if is_library && (is_target || everyone) {
                self.pythons.see(mapped.pid, &self.engine);
            }
            if is_target {
                self.pythons.see_mapped(mapped.pid, &mapped.mapping.path, &self.engine);
            }
        }
    }

    /// A library that was mapped before its probes were in place: calls in between were not seen. Said once of a file.
    fn report_lateness(&mut self, mapped: &Mapped, id: FileId, updates: &Outbox) -> Result<(), AgentError> {
        let Some(attached_ns) = self.engine.attached_ns(id) else { return Ok(()) };
        let late_ns = attached_ns.saturating_sub(self.engine.unix_ns(mapped.time_ns));
        let library = Library::of_file_name(mapped.mapping.name());
        let (Some(library), true) = (library, late_ns > 0 && self.late.insert(id)) else { return Ok(()) };
        let reason = format!(
            "attached {} after process {} mapped it; calls it made before that were not seen",
            duration(late_ns),
            mapped.pid
        );
        let status = self.library_status(library, &mapped.mapping.path, ProbeState::Degraded, reason);
        self.report(vec![status], updates)
    }

    /// Makes room for a library file; the reason where there is none.
    fn admit(&mut self, file: &LibraryFile, updates: &Outbox) -> Result<Option<String>, AgentError> {
        let process = file.pid.map(|pid| (pid, gpuwhy_host::user_of(pid).unwrap_or(0)));
        let now_ns = self.engine.now_ns();
        match self.shares.admit(file.file.id(), process, now_ns, gpuwhy_host::exists) {
            Admission::Attach => Ok(None),
            Admission::Refuse(reason) => Ok(Some(reason)),
            Admission::Replace(other) => {
                let reason = "detached to make room for another: its processes have ended or made no call";
                let statuses = self.engine.detach_library(other, reason);
                self.report(statuses, updates)?;
                Ok(None)
            }
        }
    }

    /// Lets go of library files that were deleted and whose processes have ended: they take descriptors and disk space, and
    /// a host that starts programs from fresh copies makes them without end.
    pub(super) fn release_libraries(&mut self) {
        let mut gone = self.shares.ended(gpuwhy_host::exists);
        gone.retain(|id| self.engine.is_deleted(*id));
        if gone.is_empty() {
            return;
        }
        // A child that nobody told of may have it from its parent.
        let mapped = gpuwhy_host::mapped_inodes(discovery::is_library);
        for id in gone.into_iter().filter(|id| !mapped.contains(&id.inode)) {
            self.shares.release(id);
            // Nobody is left whose calls would not be seen: there is nothing to report.
            self.engine.detach_library(id, "");
        }
    }

    fn library_status(
        &self,
        library: Library,
        shown_path: &str,
        state: ProbeState,
        reason: String,
    ) -> ProbeStatus {
        ProbeStatus {
            probe: library.probe().into(),
            target: "*".into(),
            file: shown_path.into(),
            state,
            flavour: self.engine.flavour().name().into(),
            since_ns: self.engine.now_ns(),
            reason,
        }
    }

    /// Whether anything of it could be attached.
    pub(super) fn attach(&mut self, file: &LibraryFile, updates: &Outbox) -> Result<bool, AgentError> {
        let id = file.file.id();
        if self.engine.is_attached(id) {
            if let Some(pid) = file.pid {
                self.shares.map(id, pid);
            }
            return Ok(false);
        }
        let statuses = match self.admit(file, updates)? {
            None => self.engine.attach_library(file),
            // Said once of each user, however many there are.
            Some(reason) => match self.coverage.unattached.iter().any(|line| line.ends_with(&reason)) {
                true => return Ok(false),
                false => {
                    vec![self.library_status(file.library, &file.shown_path, ProbeState::Refused, reason)]
                }
            },
        };
        let attached = statuses.iter().any(|status| status.state.works());
        self.libraries += usize::from(attached);
        if attached && file.pid.is_some() {
            lock(&self.known).used(file);
        }
        self.report(statuses, updates)?;
        Ok(attached)
    }

    pub(super) fn report(&mut self, statuses: Vec<ProbeStatus>, updates: &Outbox) -> Result<(), AgentError> {
        if statuses.is_empty() {
            return Ok(());
        }
        for status in &statuses {
            self.states.take(status);
            let message = match status.state {
                ProbeState::Degraded => &mut self.coverage.degraded,
                ProbeState::Refused => &mut self.coverage.unattached,
                ProbeState::Attached | ProbeState::Absent => continue,
            };
            let line = format!("{} {} {}: {}", status.probe, status.target, status.file, status.reason);
            // All of them are in the file; what is said with every answer is said once and has an end.
            if message.len() < MAX_MESSAGES && !message.contains(&line) {
                message.push(line);
            }
        }
        let short = in_short(&statuses);
        self.sink.write_probes(statuses)?;
        let _ = updates.send(Update::Attached(short));
        Ok(())
    }

    /// Members of a cgroup of the old hierarchy; those of the unified one the kernel tells by itself.
    pub(super) fn follow_old_cgroup(&mut self) -> Result<(), AgentError> {
        if let Some(folder) = self.config.cgroup.as_deref().filter(|folder| !is_unified(folder)) {
            for pid in gpuwhy_host::processes_in(folder).unwrap_or_default() {
                self.has_new_targets |= !self.engine.is_target(pid);
                self.engine.add_target(pid, true)?;
            }
        }
        Ok(())
    }

    /// Follows the threads of new targets; a walk over the host's threads, so not too often.
    pub(super) fn follow_threads(&mut self) {
        let is_early = self.threads_followed.is_some_and(|followed| followed.elapsed() < FOLLOW_EVERY);
        if self.has_new_targets && !is_early {
            self.has_new_targets = false;
            self.threads_followed = Some(Instant::now());
            self.engine.follow_threads();
        }
    }

    /// Follows processes outside the trace that wake its threads.
    pub(super) fn follow_wakers(&mut self, batch: &Batch, updates: &Outbox) -> Result<(), AgentError> {
        let own = std::process::id();
        let found = self.wakers.find(batch, own, |pid| self.engine.is_target(pid), has_program);
        for pid in found.new {
            self.engine.add_waker(pid)?;
            self.pythons.see(pid, &self.engine);
            self.has_new_targets = true;
        }
        for pid in found.targets {
            self.engine.mark_waker(pid)?;
        }
        let status = found.is_full.then(|| ProbeStatus {
            probe: "sched".into(),
            target: "wakers".into(),
            file: String::new(),
            state: ProbeState::Degraded,
            flavour: String::new(),
            since_ns: self.engine.now_ns(),
            reason: format!(
                "more than {MAX_WAKERS} processes outside the trace wake its threads: waits of the others are not recorded"
            ),
        });
        self.report(status.into_iter().collect(), updates)
    }

    /// Interpreters whose stacks cannot be read.
    pub(super) fn report_pythons(&mut self, updates: &Outbox) -> Result<(), AgentError> {
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

    /// Communicators that were made before the trace, or before their library was attached.
    pub(super) fn report_unseen(&mut self, updates: &Outbox) -> Result<(), AgentError> {
        if !self.communicators.has_news() {
            return Ok(());
        }
        let status = ProbeStatus {
            probe: Library::Nccl.probe().into(),
            target: "communicators".into(),
            file: String::new(),
            state: ProbeState::Degraded,
            flavour: String::new(),
            since_ns: self.engine.now_ns(),
            reason: "some were made unseen, or split from one that was: their collectives have no id, and the order of their ranks is unknown".into(),
        };
        self.report(vec![status], updates)
    }

    /// Threads of its own that panicked or did not return.
    pub(super) fn report_deaths(&mut self, updates: &Outbox) -> Result<(), AgentError> {
        let news = self.deaths.news_of_now(self.engine.now_ns());
        self.report(news, updates)
    }
}

/// Kernel threads have none, and neither has a process that ended.
fn has_program(pid: u32) -> bool {
    std::fs::read_link(format!("/proc/{pid}/exe")).is_ok()
}
