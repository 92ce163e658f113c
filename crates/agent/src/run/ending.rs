//! What the trace has come to: in between, and at its end.

use super::Run;
use crate::preparing::lock;
use crate::updates::Outbox;
use crate::{AgentError, Snapshot, Summary};
use gpuwhy_model::Batch;

impl Run {
    pub(super) fn snapshot(&mut self) -> Snapshot {
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
    fn end_annotations(&mut self, batch: &mut Batch, updates: &Outbox) -> Result<(), AgentError> {
        let Some(mut annotating) = self.annotating.take() else { return Ok(()) };
        annotating.finish(batch, self.engine.now_ns());
        let refused = self.overview.refused_annotations.iter().chain(&batch.refused_annotations);
        let status = annotating.status(refused, self.engine.now_ns());
        self.report(vec![status], updates)
    }

    pub(super) fn end(mut self, asked_to_stop: bool, updates: &Outbox) -> Result<Summary, AgentError> {
        if asked_to_stop && let Some(command) = &mut self.command {
            command.terminate();
        }
        let end_ns = self.engine.now_ns();
        let (programs, load_times) = (self.engine.program_stats(), self.engine.load_times());
        self.governor.finish(end_ns);
        let mut last = self.engine.detach()?;
        self.look_at_places(&mut last);
        self.take_readings(&mut last, updates)?;
        self.end_annotations(&mut last, updates)?;
        self.move_on(last, updates)?;
        let mut named = Batch { processes: self.census.settle(), ..Batch::default() };
        self.stacks.finish(&mut named);
        self.move_on(named, updates)?;
        self.report_deaths(updates)?;
        let snapshot = self.snapshot();
        self.sink.finish(end_ns)?;
        if let Some(path) = &self.config.known_libraries {
            lock(&self.known).save(path);
        }
        // A command outlives a trace that was only to take so long.
        let command_status = match &mut self.command {
            Some(command) if !asked_to_stop => command.wait(),
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
