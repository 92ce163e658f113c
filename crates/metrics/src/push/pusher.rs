//! The thread that sends.

use super::delivery::{Delivery, DeliveryNow, GivenUp};
use super::grpc::GrpcSender;
use super::http::HttpSender;
use super::line::Line;
use super::queue::{Outgoing, Queue};
use super::retry::{Outcome, wait};
use super::spool::Spool;
use super::target::{Protocol, Target};
use crate::ids::mixed;
use crate::otlp::{Request, Signal};
use crate::ranks::Advice;
use gpuwhy_confine::{Purpose, live};
use gpuwhy_connect::Connector;
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::sync::watch;
use tokio::time::Instant;

const NAME: &str = "gpuwhy-otlp";
/// What waits while a server is away: about an hour of metrics of a busy host.
const MAX_QUEUED: usize = 16 << 20;

/// Sends what it is given until it is told to finish.
#[derive(Debug)]
pub struct Pusher {
    line: Arc<Line>,
    delivery: Arc<Delivery>,
    /// What the server told last, until somebody asks.
    advice: Arc<Mutex<Option<Advice>>>,
    /// Until when sending may go on, once it is to end.
    end: watch::Sender<Option<Instant>>,
    thread: Option<JoinHandle<()>>,
}

impl Pusher {
    /// A sentence where the target's certificates or headers cannot be used.
    pub fn start(target: &Target) -> Result<Pusher, String> {
        Pusher::with_room(target, MAX_QUEUED)
    }

    /// With another size of the queue.
    pub fn with_room(target: &Target, most_bytes: usize) -> Result<Pusher, String> {
        let delivery = Arc::new(Delivery::default());
        let queue = Queue::new(most_bytes, Arc::clone(&delivery));
        Pusher::sending(target, Line::Memory(queue), delivery)
    }

    /// What waits is kept in files of this folder, and sent by the next agent where this one ends before.
    pub fn with_spool(target: &Target, folder: &Path, most_bytes: u64) -> Result<Pusher, String> {
        let delivery = Arc::new(Delivery::default());
        let spool =
            Spool::open(folder, most_bytes, Arc::clone(&delivery)).map_err(|error| error.to_string())?;
        Pusher::sending(target, Line::Disk(spool), delivery)
    }

    fn sending(target: &Target, line: Line, delivery: Arc<Delivery>) -> Result<Pusher, String> {
        let connector = target.connector().map_err(|error| error.to_string())?;
        let line = Arc::new(line);
        let advice = Arc::default();
        let (end, ended) = watch::channel(None);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| error.to_string())?;
        let purpose = match &*line {
            Line::Memory(_) => Purpose::Serve,
            Line::Disk(spool) => Purpose::Spool(spool.folder().into()),
        };
        let sender = {
            // The channel's task needs a runtime to live in.
            let _inside = runtime.enter();
            Sender::new(target, connector)?
        };
        let mut sending = Sending {
            sender,
            line: Arc::clone(&line),
            delivery: Arc::clone(&delivery),
            advice: Arc::clone(&advice),
            ended,
            unknown: BTreeSet::new(),
        };
        let thread = std::thread::Builder::new()
            .name(NAME.into())
            .spawn(move || {
                live(NAME, &purpose, || runtime.block_on(sending.run()));
                // Looking a name up may take longer than there is time.
                runtime.shutdown_background();
            })
            .map_err(|error| error.to_string())?;
        Ok(Pusher { line, delivery, advice, end, thread: Some(thread) })
    }

    /// Does not wait.
    pub fn put(&self, request: &Request) {
        self.line.put(request);
    }

    /// What the server has told since the last time.
    pub fn advice(&self) -> Option<Advice> {
        self.advice.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    pub fn delivery(&self) -> &Arc<Delivery> {
        &self.delivery
    }

    /// Sends what is left for so long at most, and says what became of everything.
    pub fn finish(mut self, within: Duration) -> DeliveryNow {
        self.stop(within);
        self.delivery.now()
    }

    fn stop(&mut self, within: Duration) {
        let Some(thread) = self.thread.take() else { return };
        self.line.close();
        self.end.send_replace(Some(Instant::now() + within));
        // It has told everything through the counts.
        let _ = thread.join();
    }
}

impl Drop for Pusher {
    fn drop(&mut self) {
        self.stop(Duration::ZERO);
    }
}

enum Sender {
    Grpc(Box<GrpcSender>),
    Http(Box<HttpSender>),
}

impl Sender {
    fn new(target: &Target, connector: Connector) -> Result<Sender, String> {
        Ok(match target.protocol {
            Protocol::Grpc => Sender::Grpc(Box::new(GrpcSender::new(target, connector)?)),
            Protocol::Http => Sender::Http(Box::new(HttpSender::new(target, connector)?)),
        })
    }

    async fn send(&mut self, outgoing: &Outgoing) -> Outcome {
        match self {
            Sender::Grpc(sender) => sender.send(outgoing).await,
            Sender::Http(sender) => sender.send(outgoing).await,
        }
    }

    fn advice(&mut self) -> Option<Advice> {
        match self {
            Sender::Grpc(sender) => sender.advice.take(),
            Sender::Http(sender) => sender.advice.take(),
        }
    }
}

/// All that lives in the thread.
struct Sending {
    sender: Sender,
    line: Arc<Line>,
    delivery: Arc<Delivery>,
    advice: Arc<Mutex<Option<Advice>>>,
    ended: watch::Receiver<Option<Instant>>,
    /// Kinds of data the server does not know: not sent any more.
    unknown: BTreeSet<Signal>,
}

impl Sending {
    async fn run(&mut self) {
        let mut ended = self.ended.clone();
        while let Some(outgoing) = self.line.next().await {
            if self.unknown.contains(&outgoing.signal) {
                self.delivery.dropped(outgoing.signal, GivenUp::Refused, outgoing.items);
                self.line.done(&outgoing);
                continue;
            }
            let done = tokio::select! {
                done = self.deliver(&outgoing) => done,
                () = over(&mut ended) => false,
            };
            if !done {
                self.line.leave(&outgoing);
                break;
            }
            self.line.done(&outgoing);
            if let Some(advice) = self.sender.advice() {
                *self.advice.lock().unwrap_or_else(PoisonError::into_inner) = Some(advice);
            }
        }
        self.line.give_up();
    }

    /// Until the server has taken or refused it. False where the trace is over and the server is to be asked later.
    async fn deliver(&mut self, outgoing: &Outgoing) -> bool {
        let mut failures = 0;
        loop {
            let (signal, items) = (outgoing.signal, outgoing.items);
            match self.sender.send(outgoing).await {
                Outcome::Taken { rejected, message } => {
                    let rejected = rejected.min(items);
                    self.delivery.sent(signal, items - rejected);
                    self.delivery.dropped(signal, GivenUp::Rejected, rejected);
                    if rejected > 0 {
                        self.delivery
                            .trouble(format!("the server did not take some {}: {message}", signal.items()));
                    }
                    return true;
                }
                Outcome::Refused { message } => {
                    self.delivery.dropped(signal, GivenUp::Refused, items);
                    self.delivery.trouble(message);
                    return true;
                }
                Outcome::Unknown { message } => {
                    self.delivery.dropped(signal, GivenUp::Refused, items);
                    self.delivery.not_taken(signal, message);
                    self.unknown.insert(signal);
                    return true;
                }
                Outcome::Later { after, message } => {
                    failures += 1;
                    self.delivery.trouble(message);
                    let pause = wait(failures, after, random());
                    let was_over = self.ended.borrow().is_some();
                    tokio::select! {
                        () = tokio::time::sleep(pause), if !was_over => {}
                        // It is the end: the server may be back, but is asked only once more.
                        _ = self.ended.wait_for(Option::is_some), if !was_over => {}
                        else => return false,
                    }
                    self.delivery.retried();
                }
            }
        }
    }
}

/// Returns when time is over, which is never while nobody has said so.
async fn over(ended: &mut watch::Receiver<Option<Instant>>) {
    let until = match ended.wait_for(Option::is_some).await {
        Ok(until) => *until,
        // Nobody can say so any more.
        Err(_) => None,
    };
    tokio::time::sleep_until(until.unwrap_or_else(Instant::now)).await;
}

/// Good enough to spread agents.
fn random() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    mixed(now.as_nanos() as u64 ^ u64::from(std::process::id()))
}
