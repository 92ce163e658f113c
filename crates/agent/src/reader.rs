//! The thread in which stacks are unwound and Python's memory is read. It has no privilege: the agent's own thread waits
//! for it, and opens for it what it asks for.

use crate::own::thread_cpu_time;
use crate::reading::Reading;
use gpuwhy_confine::{Purpose, Worker};
use gpuwhy_symbols::{Answer, Limits, Question, Symbols, answer, own_vdso};
use std::cell::Cell;
use std::time::{Duration, Instant};

/// A flood of stacks is read in batches of a millisecond.
const BETWEEN_JOBS: Duration = Duration::from_millis(1);
/// Stacks of one batch that are a flood.
const FLOOD: usize = 8;

#[derive(Debug)]
pub(crate) struct Reader {
    worker: Worker<Reading, Question, Answer>,
    spent: Cell<Duration>,
    flooded: Cell<Option<Instant>>,
}

impl Reader {
    pub(crate) fn start() -> Reader {
        let vdso = own_vdso();
        let worker = Worker::start("gpuwhy-reader", Purpose::Parse, move |asker| {
            let ask = move |question| asker.ask(question).unwrap_or_default();
            Reading::new(Symbols::asking(Limits::default(), vdso.clone(), ask))
        });
        Reader { worker, spent: Cell::default(), flooded: Cell::default() }
    }

    /// Does a job there. Nothing where that panicked: what was remembered is lost with it, and learnt anew.
    pub(crate) fn run<Result: Send + 'static>(
        &self,
        job: impl FnOnce(&mut Reading) -> Result + Send + 'static,
    ) -> Option<Result> {
        let timed = |reading: &mut Reading| {
            let began = thread_cpu_time();
            let result = job(reading);
            (result, thread_cpu_time().saturating_sub(began))
        };
        let (result, spent) = self.worker.run(timed, answer)?;
        self.spent.set(self.spent.get() + spent);
        Some(result)
    }

    /// So many stacks were read at once: where that is a flood, the next ones may gather.
    pub(crate) fn read_stacks(&self, count: usize) {
        self.flooded.set((count >= FLOOD).then(Instant::now));
    }

    /// How long to gather records before the next job: handing one over costs as much as unwinding several stacks.
    pub(crate) fn pause(&self) -> Duration {
        self.flooded.get().map_or(Duration::ZERO, |at| BETWEEN_JOBS.saturating_sub(at.elapsed()))
    }

    /// CPU time of all jobs.
    pub(crate) fn cpu_time(&self) -> Duration {
        self.spent.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reading::{Step, Work};

    #[test]
    fn a_job_that_panics_costs_its_own_answer() {
        let reader = Reader::start();
        assert_eq!(reader.run(|_| vec![7][std::hint::black_box(1)]), None);
        assert_eq!(reader.run(|_| 7), Some(7));
        assert_eq!(gpuwhy_confine::deaths()["gpuwhy-reader"], 1);
        // What it cannot open is opened for it, again after a panic.
        let own = std::process::id();
        let work = move |reading: &mut Reading| {
            let steps = vec![Step::See(own, Answer::default())];
            reading.work(Work { steps, ..Work::default() }).requests.len()
        };
        assert_eq!(reader.run(work), Some(1));
        assert_eq!(reader.run(|_| std::fs::File::open("/proc/version").is_ok()), Some(false));
    }
}
