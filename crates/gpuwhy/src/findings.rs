//! Findings of a trace as it is made. A process of its own explains the file and ends: tracing does not wait for it, what it
//! takes of memory goes back, and it has no privilege. A thread starts it; whoever asked reads its answer.

use crate::commands::explain_worker::{OF_LAST_MINUTE, Question, WORKER};
use crate::shell;
use gpuwhy_confine::{Helper, Purpose, Trouble, live};
use gpuwhy_query::Explained;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const NAME: &str = "gpuwhy-findings";
/// Also after another version was put in its place.
const THIS_PROGRAM: &str = "/proc/self/exe";
/// Looking takes at most this share of a CPU.
const SHARE: u32 = 50;
const LOOK_EVERY: Duration = Duration::from_secs(3);
/// An explanation that takes longer is not waited for.
const PATIENCE: Duration = Duration::from_secs(120);
const MAX_REPLY: usize = 64 << 20;

/// Has a trace explained again and again where it `watches`, and once more at its end.
#[derive(Debug)]
pub(crate) struct Explainer {
    found: Receiver<Vec<u8>>,
    /// When the session began that is to be explained; dropped to end the thread.
    ends: Option<Sender<u64>>,
    concluded: Receiver<Vec<u8>>,
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Explainer {
    /// Of the file at `path`, which another thread writes. Where no thread can be had, there are no findings: `gpuwhy explain`
    /// has them.
    pub(crate) fn start(path: PathBuf, watches: bool) -> Explainer {
        let (found_sender, found) = channel();
        let (ends, ended) = channel();
        let (concluded_sender, concluded) = channel();
        let is_over = Arc::new(AtomicBool::new(false));
        let starter = Starter { path, is_over: Arc::clone(&is_over) };
        let run = move || starter.run(watches, &found_sender, &ended, &concluded_sender);
        let thread = std::thread::Builder::new()
            .name(NAME.into())
            .spawn(move || live(NAME, &Purpose::Start, run))
            .ok();
        Explainer { found, ends: Some(ends), concluded, is_over, thread }
    }

    /// The newest ones since it was last asked.
    pub(crate) fn newest(&self) -> Option<Explained> {
        self.found.try_iter().last().and_then(|reply| read(&reply))
    }

    /// The session that began at `start_ns` explained, and its findings kept in the file. Nothing where there were no calls.
    pub(crate) fn conclude(&self, start_ns: u64) -> Option<Explained> {
        // What is explained at this moment is of no use any more.
        self.is_over.store(true, Ordering::Relaxed);
        self.ends.as_ref()?.send(start_ns).ok()?;
        let mut explained = read(&self.concluded.recv().ok()?)?;
        name_command(&mut explained);
        Some(explained)
    }
}

/// What looks at all of a trace whose last minute alone was explained.
fn name_command(explained: &mut Explained) {
    let command = shell::explain(Path::new(&explained.trace.file));
    for line in explained.coverage.degraded.iter_mut().filter(|line| *line == OF_LAST_MINUTE) {
        line.push_str(&format!("; `{command}` looks at all of it"));
    }
}

impl Drop for Explainer {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        self.ends = None;
        if let Some(thread) = self.thread.take() {
            // It cannot panic with anything to tell.
            let _ = thread.join();
        }
    }
}

fn read(reply: &[u8]) -> Option<Explained> {
    serde_json::from_slice(reply).ok()
}

/// What the thread has: it starts processes and hands on what they said.
struct Starter {
    path: PathBuf,
    is_over: Arc<AtomicBool>,
}

impl Starter {
    fn run(
        &self,
        watches: bool,
        found: &Sender<Vec<u8>>,
        ended: &Receiver<u64>,
        concluded: &Sender<Vec<u8>>,
    ) {
        let mut pause = LOOK_EVERY;
        loop {
            let end = match watches {
                true => ended.recv_timeout(pause),
                false => ended.recv().map_err(|_| RecvTimeoutError::Disconnected),
            };
            match end {
                Err(RecvTimeoutError::Disconnected) => return,
                Err(RecvTimeoutError::Timeout) => {
                    let began = Instant::now();
                    let is_over = || self.is_over.load(Ordering::Relaxed);
                    // A file without calls yet has nothing to explain; one that cannot be read is the writer's to report.
                    if let Ok(reply) = self.explain(&Question::Recent, is_over)
                        && found.send(reply).is_err()
                    {
                        return;
                    }
                    pause = LOOK_EVERY.max(began.elapsed() * SHARE);
                }
                Ok(start_ns) => {
                    // The trace is whole without them: `gpuwhy explain` finds them again.
                    let reply = self.explain(&Question::Conclude { start_ns }, || false).unwrap_or_default();
                    let _ = concluded.send(reply);
                }
            }
        }
    }

    fn explain(&self, question: &Question, is_stopped: impl Fn() -> bool) -> Result<Vec<u8>, Trouble> {
        let helper = Helper {
            program: THIS_PROGRAM.into(),
            words: vec![WORKER.into(), "--".into(), self.path.clone().into()],
            variables: &[],
            folder: None,
        };
        let question = serde_json::to_vec(question).map_err(|error| Trouble::NotStarted(error.into()))?;
        let reply = helper.ask(&question, MAX_REPLY, Instant::now() + PATIENCE, is_stopped)?;
        Ok(reply.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::explanation::first_screen;

    #[test]
    fn an_answer_of_the_last_minute_names_what_looks_at_all_of_it() {
        let mut explained = first_screen::tests::recording("loader_cpu");
        explained.trace.file = "my run.db".into();
        explained.coverage.degraded = vec![OF_LAST_MINUTE.into()];
        name_command(&mut explained);
        let line = "answer: of the last minute, as the trace is large; `gpuwhy explain 'my run.db'` looks at all of it";
        assert_eq!(explained.coverage.degraded, [line]);
    }
}
