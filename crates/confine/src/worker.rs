//! A confined thread that works for another, which waits for it, and opens what the confined one asks for.

use crate::deaths::count;
use crate::patience::{self, Missing, ThreadId, wait};
use crate::{Purpose, confine};
use std::any::Any;
use std::cell::RefCell;
use std::convert::Infallible;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

type Done = Box<dyn Any + Send>;
type Job<State> = Box<dyn FnOnce(&mut State) -> Done + Send>;

enum News<Question> {
    Question(Question),
    Done(Done),
    Died,
}

type Make<State, Question, Answer> = dyn Fn(Asker<Question, Answer>) -> State + Send + Sync;

/// The thread, as long as this lives. A job that panics takes the state with it: the next one finds a new one. One that
/// does not return is left behind with its thread, and the next one finds a new thread.
pub struct Worker<State, Question = Infallible, Answer = Infallible> {
    name: &'static str,
    purpose: Purpose,
    make: Arc<Make<State, Question, Answer>>,
    /// Nothing where no thread could be started.
    thread: RefCell<Option<Thread<State, Question, Answer>>>,
}

struct Thread<State, Question, Answer> {
    id: Arc<ThreadId>,
    jobs: Sender<Job<State>>,
    news: Receiver<News<Question>>,
    answers: Sender<Answer>,
}

impl<State, Question, Answer> fmt::Debug for Worker<State, Question, Answer> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Worker").finish_non_exhaustive()
    }
}

impl<Question, Answer> fmt::Debug for Asker<Question, Answer> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Asker").finish_non_exhaustive()
    }
}

/// Asks for what a confined thread cannot do itself.
pub struct Asker<Question, Answer> {
    questions: Sender<News<Question>>,
    answers: Rc<Receiver<Answer>>,
}

impl<Question, Answer> Asker<Question, Answer> {
    /// Nothing where nobody listens any more.
    pub fn ask(&self, question: Question) -> Option<Answer> {
        self.questions.send(News::Question(question)).ok()?;
        self.answers.recv().ok()
    }
}

impl<State, Question, Answer> Worker<State, Question, Answer>
where
    State: 'static,
    Question: Send + 'static,
    Answer: Send + 'static,
{
    /// `make` makes the state, in the confined thread.
    pub fn start(
        name: &'static str,
        purpose: Purpose,
        make: impl Fn(Asker<Question, Answer>) -> State + Send + Sync + 'static,
    ) -> Worker<State, Question, Answer> {
        let worker = Worker { name, purpose, make: Arc::new(make), thread: RefCell::default() };
        worker.thread.replace(worker.start_thread());
        worker
    }

    fn start_thread(&self) -> Option<Thread<State, Question, Answer>> {
        let (jobs, inbox) = channel::<Job<State>>();
        let (outbox, news) = channel();
        let (answers, answered) = channel();
        let id = Arc::new(ThreadId::default());
        let (name, purpose, make, own) =
            (self.name, self.purpose.clone(), Arc::clone(&self.make), Arc::clone(&id));
        let run = move || {
            own.set();
            confine(&purpose);
            let answered = Rc::new(answered);
            let asker = || Asker { questions: outbox.clone(), answers: Rc::clone(&answered) };
            let mut state: Option<State> = None;
            for job in inbox {
                let work = AssertUnwindSafe(|| job(state.get_or_insert_with(|| make(asker()))));
                let end = catch_unwind(work).map_or_else(
                    |_| {
                        state = None;
                        count(name);
                        News::Died
                    },
                    News::Done,
                );
                if outbox.send(end).is_err() {
                    return;
                }
            }
        };
        std::thread::Builder::new().name(name.into()).spawn(run).ok()?;
        Some(Thread { id, jobs, news, answers })
    }

    /// Does a job in the thread, and waits for it; `answer` answers its questions meanwhile. Nothing where it panicked, or did
    /// not return.
    pub fn run<Result: Send + 'static>(
        &self,
        job: impl FnOnce(&mut State) -> Result + Send + 'static,
        mut answer: impl FnMut(Question) -> Answer,
    ) -> Option<Result> {
        let mut place = self.thread.borrow_mut();
        let thread = place.as_ref()?;
        thread.jobs.send(Box::new(|state| Box::new(job(state)))).ok()?;
        loop {
            match wait(&thread.news, &thread.id, patience::turns(&self.purpose)) {
                Ok(News::Question(question)) => thread.answers.send(answer(question)).ok()?,
                Ok(News::Done(done)) => return done.downcast().ok().map(|done| *done),
                Ok(News::Died) | Err(Missing::Ended) => return None,
                Err(Missing::Stuck) => {
                    patience::count(self.name);
                    *place = self.start_thread();
                    return None;
                }
            }
        }
    }
}

/// A confined thread for jobs that need nothing but what they are given.
#[derive(Debug)]
pub struct Parser {
    worker: Worker<()>,
}

impl Parser {
    pub fn start(name: &'static str, purpose: Purpose) -> Parser {
        Parser { worker: Worker::start(name, purpose, |_| ()) }
    }

    /// Nothing where the job panicked.
    pub fn parse<Result: Send + 'static>(
        &self,
        job: impl FnOnce() -> Result + Send + 'static,
    ) -> Option<Result> {
        self.worker.run(|()| job(), |never| match never {})
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::deaths;
    use std::fs::File;
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;
    use std::path::PathBuf;
    use std::time::Duration;

    #[test]
    fn what_it_may_not_open_is_opened_for_it() {
        let worker: Worker<Asker<PathBuf, Option<File>>, PathBuf, Option<File>> =
            Worker::start("test-worker", Purpose::Parse, |asker| asker);
        let read = |asker: &mut Asker<PathBuf, Option<File>>| {
            let own = File::open("/proc/version").is_ok();
            let mut text = String::new();
            asker.ask("/proc/version".into())??.read_to_string(&mut text).ok()?;
            Some((own, text))
        };
        let (own, text) = worker.run(read, |path| File::open(path).ok()).unwrap().unwrap();
        assert!(!own && text.starts_with("Linux"), "{text}");
    }

    #[test]
    fn a_job_that_panics_costs_its_answer_and_the_state() {
        let worker: Worker<Vec<i32>> = Worker::start("test-dies", Purpose::Parse, |_| Vec::new());
        let never = |never| match never {};
        let push = |number: i32| {
            let job = move |state: &mut Vec<i32>| {
                assert_ne!(number, 3);
                state.push(number);
                state.clone()
            };
            worker.run(job, never)
        };
        assert_eq!((push(1), push(2)), (Some(vec![1]), Some(vec![1, 2])));
        assert_eq!((push(3), push(4)), (None, Some(vec![4])));
        assert_eq!(deaths()["test-dies"], 1);
    }

    #[test]
    fn a_job_that_never_ends_is_left_behind_with_its_thread() {
        let worker: Worker<Vec<i32>> = Worker::start("test-stuck", Purpose::Parse, |_| vec![1]);
        let (reader, writer) = std::io::pipe().unwrap();
        let stuck = move |state: &mut Vec<i32>| {
            state.push(2);
            let mut byte = [0];
            (&reader).read(&mut byte).unwrap()
        };
        assert_eq!(worker.run(stuck, |never| match never {}), None);
        assert_eq!(worker.run(|state| state.clone(), |never| match never {}), Some(vec![1]));
        assert_eq!(crate::stuck()["test-stuck"], 1);
        assert_eq!(deaths().get("test-stuck"), None, "it did not fail");
        drop(writer);
    }

    #[test]
    fn a_parser_can_do_nothing_else() {
        let parser = Parser::start("test-parser", Purpose::Parse);
        assert_eq!(parser.parse(|| 7), Some(7));
        assert_eq!(parser.parse(|| File::open("/proc/version").is_ok()), Some(false));
    }

    #[test]
    fn who_talks_has_its_connection_and_can_make_no_other() {
        let parser = Parser::start("test-talker", Purpose::Talk);
        let (mut one, mut other) = UnixStream::pair().unwrap();
        one.write_all(b"hello").unwrap();
        drop(one);
        let heard = parser.parse(move || {
            let mut text = String::new();
            other.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
            other.read_to_string(&mut text).unwrap();
            (text, UnixStream::pair().is_ok(), File::open("/proc/version").is_ok())
        });
        assert_eq!(heard, Some(("hello".to_string(), false, false)));
    }
}
