//! Names for stacks, found in a thread of their own: the first look into a large library takes a while, and nothing else
//! may wait for it.

use crate::naming::name;
use gpuwhy_confine::{Purpose, live};
use gpuwhy_model::{Frame, Stack};
use gpuwhy_symbols::{Answer, Limits, Seen, Symbols, own_vdso};
use std::collections::{HashMap, VecDeque};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

const NAME: &str = "gpuwhy-names";
/// Stacks that wait for names; those beyond are stored as addresses.
const MAX_WAITING: usize = 4_096;
/// A trace that ends waits so long for the last names.
const PATIENCE: Duration = Duration::from_millis(600);

/// How often it is checked which tables of names nobody needs.
const DROP_EVERY: Duration = Duration::from_secs(1);

/// A stack without names of its native frames.
#[derive(Debug)]
pub(crate) struct Unnamed {
    pub(crate) stack: Stack,
    /// Where the stack of each of its addresses begins; empty where that is not known.
    pub(crate) stack_pointers: Vec<u64>,
    pub(crate) python: Vec<Ran>,
    /// The innermost address is where a call returns to; else it is where the thread is.
    pub(crate) is_at_return: bool,
}

/// A Python function that ran.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) function: Frame,
    /// It is the outermost of a run of the eval loop.
    pub(crate) entry: bool,
    /// Where on the native stack that run is, if that is known.
    pub(crate) foot: Option<u64>,
}

#[derive(Debug)]
pub(crate) enum Request {
    /// What a process executes; its end may come before its names are looked for.
    See(u32, Seen),
    /// A child has its parent's mappings.
    Inherit(u32, u32),
    Forget(u32),
    Name(Unnamed),
    /// All that there is to know of processes has been told again.
    GoOn,
}

enum News {
    Named(Stack),
    /// The thread panicked, and has forgotten all processes; at this stack, if it was at one.
    Restarted(Option<i64>),
}

#[derive(Debug)]
pub(crate) struct Names {
    requests: Option<Sender<Request>>,
    news: Receiver<News>,
    /// As they are, should their names not come.
    waiting: HashMap<i64, Stack>,
    done: Vec<Stack>,
    knows_nothing: bool,
}

impl Names {
    pub(crate) fn start() -> Self {
        Names::naming(name)
    }

    fn naming(name: impl Fn(&mut Symbols, Unnamed) -> Stack + Send + 'static) -> Self {
        let (requests, inbox) = channel();
        let (outbox, news) = channel();
        let thread = std::thread::Builder::new().name(NAME.into());
        let vdso = own_vdso();
        let run = move || {
            // Names can wait for the CPU, traced programs should not have to. Where it is refused, nothing changes.
            let _ = rustix::process::nice(10);
            run(&inbox, &outbox, vdso.as_ref(), name);
        };
        // Without the thread, stacks are stored as addresses.
        let requests = thread.spawn(run).ok().map(|_| requests);
        Names { requests, news, waiting: HashMap::new(), done: Vec::new(), knows_nothing: false }
    }

    pub(crate) fn ask(&mut self, request: Request) {
        match request {
            Request::Name(unnamed) => self.ask_names(unnamed),
            about_process => self.send(about_process),
        }
    }

    fn ask_names(&mut self, unnamed: Unnamed) {
        let mut plain = unnamed.stack.clone();
        plain.frames = unnamed.python.iter().map(|ran| ran.function.clone()).collect();
        if self.waiting.len() >= MAX_WAITING || self.requests.is_none() {
            self.done.push(plain);
            return;
        }
        self.waiting.insert(plain.stack_id, plain);
        self.send(Request::Name(unnamed));
    }

    /// Whether its names have come, or will not.
    pub(crate) fn has(&self, stack_id: i64) -> bool {
        !self.waiting.contains_key(&stack_id)
    }

    fn send(&self, request: Request) {
        if let Some(requests) = &self.requests {
            // A thread that is gone answers nothing: its stacks are stored as they are in the end.
            let _ = requests.send(request);
        }
    }

    /// Those that are ready.
    pub(crate) fn take(&mut self) -> Vec<Stack> {
        let mut ready = std::mem::take(&mut self.done);
        while let Ok(news) = self.news.try_recv() {
            ready.extend(self.hear(news));
        }
        ready
    }

    fn hear(&mut self, news: News) -> Option<Stack> {
        match news {
            News::Named(stack) => {
                self.waiting.remove(&stack.stack_id);
                Some(stack)
            }
            News::Restarted(at) => {
                self.knows_nothing = true;
                at.and_then(|stack_id| self.waiting.remove(&stack_id))
            }
        }
    }

    /// It panicked, and waits to be told of all processes again.
    pub(crate) fn knows_nothing(&self) -> bool {
        self.knows_nothing
    }

    /// Tells it of all processes again.
    pub(crate) fn go_on(&mut self, seen: Vec<Request>) {
        self.knows_nothing = false;
        for request in seen.into_iter().chain([Request::GoOn]) {
            self.send(request);
        }
    }

    /// All of them: those that do not get ready in time as addresses.
    pub(crate) fn finish(&mut self) -> Vec<Stack> {
        let mut ready = self.take();
        self.requests = None;
        let until = Instant::now() + PATIENCE;
        while !self.waiting.is_empty() {
            match self.news.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(news) => ready.extend(self.hear(news)),
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => break,
            }
        }
        ready.extend(self.waiting.drain().map(|(_, stack)| stack));
        ready
    }
}

/// Names stacks until nobody asks any more. What waits outlives a panic.
fn run(
    inbox: &Receiver<Request>,
    outbox: &Sender<News>,
    vdso: Option<&Vec<u8>>,
    name: impl Fn(&mut Symbols, Unnamed) -> Stack,
) {
    let mut stacks: VecDeque<Unnamed> = VecDeque::new();
    let mut at: Option<i64> = None;
    let mut is_first = true;
    live(NAME, &Purpose::Parse, || {
        // Stacks are not named before it is known again what their processes execute.
        let mut waits = !std::mem::take(&mut is_first);
        if waits && outbox.send(News::Restarted(at.take())).is_err() {
            return;
        }
        // Others open files, and tell what they met.
        let mut symbols = Symbols::asking(Limits::default(), vdso.cloned(), |_| Answer::default());
        let mut finish = |symbols: &mut Symbols, unnamed: Unnamed| {
            at = Some(unnamed.stack.stack_id);
            let named = name(symbols, unnamed);
            at = None;
            outbox.send(News::Named(named)).is_ok()
        };
        let mut checked = Instant::now();
        loop {
            if checked.elapsed() >= DROP_EVERY {
                checked = Instant::now();
                symbols.drop_unused();
            }
            // Processes first: a stack is not named before what its process executes is known.
            let next = match waits || stacks.is_empty() {
                true => match inbox.recv_timeout(DROP_EVERY) {
                    Err(RecvTimeoutError::Timeout) => continue,
                    request => request.ok(),
                },
                false => inbox.try_recv().ok(),
            };
            match next {
                Some(Request::See(pid, seen)) => symbols.take(pid, seen),
                Some(Request::Inherit(parent, child)) => symbols.inherit(parent, child),
                // Not before its stacks have their names.
                Some(Request::Forget(pid)) => {
                    while let Some(index) = stacks.iter().position(|unnamed| unnamed.stack.pid == pid)
                        && let Some(unnamed) = stacks.remove(index)
                    {
                        finish(&mut symbols, unnamed);
                    }
                    symbols.forget(pid);
                }
                Some(Request::Name(unnamed)) => stacks.push_back(unnamed),
                Some(Request::GoOn) => waits = false,
                None => match stacks.pop_front() {
                    Some(unnamed) => {
                        waits = false;
                        if !finish(&mut symbols, unnamed) {
                            return;
                        }
                    }
                    None => return,
                },
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unnamed(stack_id: i64) -> Request {
        let stack = Stack { stack_id, pid: 7, addresses: vec![stack_id as u64], ..Stack::default() };
        Request::Name(Unnamed { stack, stack_pointers: Vec::new(), python: Vec::new(), is_at_return: false })
    }

    /// A panic while one stack is named: that one comes without names, those behind it with.
    #[test]
    fn a_panic_costs_the_names_of_one_stack() {
        let mut names = Names::naming(|_, unnamed| {
            assert_ne!(unnamed.stack.stack_id, 2);
            let frames = vec![Frame::default()];
            Stack { frames, ..unnamed.stack }
        });
        (1..=4).for_each(|stack_id| names.ask(unnamed(stack_id)));
        let mut ready = Vec::new();
        let until = Instant::now() + Duration::from_secs(20);
        while ready.len() < 4 && Instant::now() < until {
            ready.extend(names.take());
            if names.knows_nothing() {
                assert!(!names.has(3), "it waits for what is known of processes");
                names.go_on(Vec::new());
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        ready.sort_by_key(|stack| stack.stack_id);
        let found: Vec<(i64, usize)> =
            ready.iter().map(|stack| (stack.stack_id, stack.frames.len())).collect();
        assert_eq!(found, [(1, 1), (2, 0), (3, 1), (4, 1)]);
        assert_eq!(gpuwhy_confine::deaths()[NAME], 1);
    }
}
