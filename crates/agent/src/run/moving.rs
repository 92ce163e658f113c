//! A batch's way: what was read meanwhile joins it, what the kernel could not know is added, and it goes on to the store.

use super::Run;
use crate::between::see;
use crate::governor::{Action, Change};
use crate::kernel_names::KernelNames;
use crate::mask;
use crate::outside::{self, Target};
use crate::own;
use crate::updates::Outbox;
use crate::{AgentError, Update};
use gpuwhy_cause::{blame_rows, slow_limit_ns};
use gpuwhy_model::{
    Batch, BetweenCalls, CallClass, GpuError, InFlight, ProbeState, ProbeStatus, ProcessEventKind,
};
use gpuwhy_probes::StackMode;
use std::cell::OnceCell;
use std::time::Instant;

impl Run {
    /// What the pollers read meanwhile.
    pub(super) fn take_readings(&mut self, batch: &mut Batch, updates: &Outbox) -> Result<(), AgentError> {
        for reading in self.pollers.take() {
            self.report(reading.statuses, updates)?;
            self.gpus.extend(reading.gpus);
            batch.gpu_samples.extend(reading.samples);
            // The driver's tracepoint tells the same with its own words.
            let reported = |error: &GpuError| error.event == "xid" && self.has_xid_tracepoint();
            batch.gpu_errors.extend(reading.errors.into_iter().filter(|error| !reported(error)));
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

    pub(super) fn look_at_places(&mut self, batch: &mut Batch) {
        batch.thread_places = self.places.changed(self.engine.thread_places());
        let living = self.census.by_pid().values().filter(|process| process.end_ns.is_none());
        self.places.ask(living.map(|process| (process.pid, self.gpus.get(&process.pid).copied())));
    }

    /// Does what keeps the cost within its budget, and says so.
    fn govern(&mut self, batch: &mut Batch, updates: &Outbox) -> Result<(), AgentError> {
        let mut actions = self.governor.take(&batch.debts, self.engine.now_ns());
        batch.debts.clear();
        for class in CallClass::ALL {
            // A record of it may have found no room.
            if let Some(at_ns) = self.engine.slice_closed(class) {
                actions.extend(self.governor.closed(class, at_ns, None));
            }
        }
        actions.extend(self.governor.step(self.engine.now_ns()));
        self.act(actions, batch, updates)?;
        batch.tracing_costs = self.governor.tracing_costs(&batch.windows);
        batch.slices = self.governor.account(&mut batch.windows, &batch.waits);
        Ok(())
    }

    pub(super) fn act(
        &mut self,
        actions: Vec<Action>,
        batch: &mut Batch,
        updates: &Outbox,
    ) -> Result<(), AgentError> {
        for action in actions {
            match action {
                Action::Attach(classes) => {
                    let refused = classes.iter().flat_map(|class| self.engine.attach_class(*class)).collect();
                    self.report(refused, updates)?;
                    let opened = self.governor.opened(self.engine.now_ns());
                    self.act(opened, batch, updates)?;
                }
                Action::DetachSoon(at_ns) => self.engine.detach_soon(at_ns),
                Action::Set(class, setting) => self.engine.set_slice(class, &setting)?,
                Action::Detach(class) => self.engine.detach_class(class),
                Action::Report(change) => {
                    let status = self.changed(&change);
                    batch.watch_changes.push(status.clone());
                    self.report(vec![status], updates)?;
                }
            }
        }
        Ok(())
    }

    /// A change of what is seen, in words.
    fn changed(&self, change: &Change) -> ProbeStatus {
        let percent = 100.0 * self.config.budget.unwrap_or(1.0);
        let (target, state, reason) = match change {
            Change::Sliced(class, pid) => {
                let who = pid.map_or(String::new(), |pid| format!(" of process {pid}"));
                let reason = format!(
                    "watched in slices of time: the calls{who} cost more than the budget of {percent}%"
                );
                (class.name().to_string(), ProbeState::Degraded, reason)
            }
            Change::Whole(class) => {
                (class.name().to_string(), ProbeState::Attached, "watched all the time again".to_string())
            }
            Change::NoStacks(pid) => {
                let reason = format!("some calls have no stack: the budget is {percent}%");
                (format!("process {pid}"), ProbeState::Degraded, reason)
            }
        };
        ProbeStatus {
            probe: "governor".into(),
            target,
            file: String::new(),
            state,
            flavour: String::new(),
            since_ns: self.engine.now_ns(),
            reason,
        }
    }

    /// What the kernel could not know: how a call was made, on which of the host's GPUs, as which rank.
    fn complete(&mut self, batch: &mut Batch) {
        self.pythons.follow(batch, &self.engine);
        self.stacks.complete(batch, &mut self.pythons, &self.reader);
        if self.config.stacks != StackMode::Off {
            self.report_stuck(batch);
        }
        if self.sees_threads()
            && let Some(weight) = self.looks.due(Instant::now())
        {
            let spent = || own::thread_cpu_time() + self.reader.cpu_time();
            let before = spent();
            let read = |threads: &[BetweenCalls]| outside::frames_of(threads, &self.pythons, &self.reader);
            see(batch, &mut self.looks, weight, read, || self.engine.followed_threads());
            self.looks.done(spent().saturating_sub(before));
        }
        self.host_events.complete(batch, self.census.by_pid());
        self.neighbours.take(batch, self.census.by_pid(), self.engine.now_ns());
        batch.memory_places.extend(self.places.answers());
        self.callers.report_via(&mut batch.calls);
        KernelNames::check(&mut batch.calls);
        self.silent.take(batch);
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

    /// Where calls are made that do not return, and where threads are that made collectives and came to no call for long.
    fn report_stuck(&mut self, batch: &mut Batch) {
        let registers = OnceCell::new();
        let (pythons, reader) = (&self.pythons, &self.reader);
        let read = |target: Target| {
            let all = registers.get_or_init(|| self.engine.registers());
            let of_it = all.iter().find(|registers| registers.tid == target.tid);
            outside::read(target, of_it, pythons, reader)
        };
        let of_call = |call: &InFlight| {
            read(Target { pid: call.pid, tid: call.tid, thread_pointer: call.thread_pointer })
        };
        if batch.in_flight.is_some() {
            for seen in self.silent.find(self.engine.now_ns(), || self.engine.between_calls()) {
                let target = Target { pid: seen.pid, tid: seen.tid, thread_pointer: seen.thread_pointer };
                let place = read(target).and_then(|seen| self.stacks.take_outside(seen, batch, reader));
                self.silent.remember(seen, place);
            }
            batch.between_calls.extend(self.silent.reported(|place| self.stacks.known(place)));
        }
        let emit = |seen, batch: &mut Batch| self.stacks.take_outside(seen, batch, reader);
        self.stuck.complete(batch, of_call, || self.engine.in_flight(), emit);
        self.stuck.report_stacks(batch, |place| self.stacks.known(place));
    }

    /// A batch's way through census, tallies and ledger into the store.
    pub(super) fn move_on(&mut self, mut batch: Batch, updates: &Outbox) -> Result<(), AgentError> {
        let own = std::process::id();
        batch.process_events.retain(|event| event.pid != own);
        batch.wait_events.retain(|wait| wait.pid != own);
        // Before everything that takes a while: a communicator may be destroyed by then.
        self.communicators.complete(&mut batch.nccl_calls, &self.engine);
        for event in &batch.process_events {
            match event.kind {
                ProcessEventKind::Seen => {
                    self.shares.call(event.pid);
                    self.callers.read(event.pid);
                }
                ProcessEventKind::Fork => self.shares.fork(event.pid, event.child),
                _ => {}
            }
        }
        self.has_new_targets |= batch.process_events.iter().any(|event| event.kind == ProcessEventKind::Seen);
        self.follow_wakers(&batch, updates)?;
        let forgotten = self.census.take(&mut batch);
        for event in batch.process_events.iter().filter(|event| event.kind == ProcessEventKind::Exit) {
            self.gpus.remove(&event.pid);
            self.governor.forget(event.pid);
            self.foresight.forget(event.pid);
        }
        self.govern(&mut batch, updates)?;
        self.complete(&mut batch);
        self.report_pythons(updates)?;
        self.report_unseen(updates)?;
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
        for loss in &batch.losses {
            self.coverage.add_loss(&loss.probe, &loss.reason, loss.count);
        }
        mask::processes(&mut batch, self.config.mask);
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
    pub(super) fn adapt_limits(&mut self) -> Result<(), AgentError> {
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
}
