//! Names of containers, pods and jobs, looked for in a thread of their own: files of a container may lie on a disk that
//! does not answer, and a daemon may be slow, while records wait for nobody.

use gpuwhy_confine::{Parser, Purpose, live};
use gpuwhy_host::{Lookup, Root};
use gpuwhy_model::Process;
use std::sync::mpsc::{Receiver, SyncSender, channel, sync_channel};
use std::time::{Duration, Instant};

const NAME: &str = "gpuwhy-owners";
/// Reads what files and daemons say.
const PARSER: &str = "gpuwhy-answers";
/// Processes that may wait for their names; more than that keep what is known at once.
const QUEUE: usize = 1024;
/// A thread that has not answered for so long is given up.
const STUCK: Duration = Duration::from_secs(10);
/// Threads given up before no more are started.
const MAX_STUCK: usize = 3;
/// How long the end of a trace waits for names.
const PATIENCE: Duration = Duration::from_millis(300);

#[derive(Debug, Default)]
pub(crate) struct Owners {
    thread: Option<Thread>,
    stuck: usize,
}

#[derive(Debug)]
struct Thread {
    questions: SyncSender<Process>,
    answers: Receiver<Process>,
    open: usize,
    /// Of the latest answer, or of the question when none was open.
    since: Instant,
}

impl Owners {
    /// Only what is in a container or a pod has names to be looked for.
    pub(crate) fn ask(&mut self, process: &Process) {
        if process.container.is_none() || self.stuck > MAX_STUCK {
            return;
        }
        if self.thread.is_none() {
            self.thread = Thread::start();
        }
        let Some(thread) = &mut self.thread else { return };
        if thread.questions.try_send(process.clone()).is_ok() {
            if thread.open == 0 {
                thread.since = Instant::now();
            }
            thread.open += 1;
        }
    }

    /// Processes with all that was found.
    pub(crate) fn answers(&mut self) -> Vec<Process> {
        let Some(thread) = &mut self.thread else { return Vec::new() };
        let answers: Vec<Process> = thread.answers.try_iter().collect();
        thread.open = thread.open.saturating_sub(answers.len());
        if !answers.is_empty() {
            thread.since = Instant::now();
        } else if thread.open > 0 && thread.since.elapsed() >= STUCK {
            // It ends by itself once what it waits for has answered: nobody hears it any more.
            self.thread = None;
            self.stuck += 1;
        }
        answers
    }

    /// Waits a little for what was asked.
    pub(crate) fn last_answers(&mut self) -> Vec<Process> {
        let Some(thread) = &mut self.thread else { return Vec::new() };
        let until = Instant::now() + PATIENCE;
        let mut answers = Vec::new();
        while thread.open > 0
            && let Ok(answer) = thread.answers.recv_timeout(until.saturating_duration_since(Instant::now()))
        {
            thread.open -= 1;
            answers.push(answer);
        }
        answers
    }
}

impl Thread {
    fn start() -> Option<Thread> {
        let (questions, asked) = sync_channel::<Process>(QUEUE);
        let (answer, answers) = channel();
        std::thread::Builder::new()
            .name(NAME.into())
            .spawn(move || {
                let parser = Parser::start(PARSER, Purpose::Talk);
                let mut lookup = Lookup::reading_in(parser, Root::default());
                live(NAME, &Purpose::Look, || {
                    for mut process in &asked {
                        lookup.complete(&mut process);
                        if answer.send(process).is_err() {
                            return;
                        }
                    }
                });
            })
            .ok()?;
        Some(Thread { questions, answers, open: 0, since: Instant::now() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpuwhy_model::Container;

    #[test]
    fn those_in_containers_are_asked_about_and_no_others() {
        let mut owners = Owners::default();
        owners.ask(&Process { pid: u32::MAX, ..Process::default() });
        assert!(owners.thread.is_none() && owners.last_answers().is_empty());
        for pid in [u32::MAX, u32::MAX - 1] {
            let container =
                Container { container_id: "web".into(), name: Some("web".into()), ..Container::default() };
            owners.ask(&Process { pid, container: Some(container), ..Process::default() });
        }
        let answers = owners.last_answers();
        assert_eq!(answers.iter().map(|process| process.tenant.as_str()).collect::<Vec<_>>(), ["web", "web"]);
        assert!(owners.answers().is_empty());
    }
}
