//! Inference servers, asked once a second by a thread of their own: one that does not answer must not hold up the trace.

use gpuwhy_confine::{Parser, Purpose, live};
use gpuwhy_model::{Batch, ProbeState, ProbeStatus};
use gpuwhy_servers::{Heard, ServerMeter, Wanted};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::{Duration, Instant};

const NAME: &str = "gpuwhy-servers";
/// Reads what they answer.
const PARSER: &str = "gpuwhy-pages";
const ASK_EVERY: Duration = Duration::from_secs(1);
/// How soon the thread notices that it is to end.
const TURN: Duration = Duration::from_millis(50);
const QUEUE: usize = 64;

/// The thread, as long as this lives.
#[derive(Debug)]
pub(crate) struct Serving {
    heard: Receiver<(Heard, u64)>,
    stop: Arc<AtomicBool>,
}

impl Serving {
    /// `now_ns` is the clock of all timestamps of the run.
    pub(crate) fn start(wanted: Wanted, now_ns: impl Fn() -> u64 + Send + 'static) -> Serving {
        let (sender, heard) = sync_channel(QUEUE);
        let stop = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&stop);
        // Without a thread there are no samples, and nothing else changes.
        let _ = std::thread::Builder::new().name(NAME.into()).spawn(move || {
            let mut meter = ServerMeter::new(wanted, Parser::start(PARSER, Purpose::Talk));
            live(NAME, &Purpose::Look, || run(&sender, &flag, &mut meter, &now_ns));
        });
        Serving { heard, stop }
    }

    /// Puts samples into the batch; tells who can be read from now on, and who cannot.
    pub(crate) fn take(&self, batch: &mut Batch) -> Vec<ProbeStatus> {
        let mut statuses = Vec::new();
        for (heard, now_ns) in self.heard.try_iter() {
            batch.server_samples.extend(heard.samples);
            statuses.extend(heard.news.into_iter().map(|(who, why)| status(who, why, now_ns)));
        }
        statuses
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

fn run(
    sender: &SyncSender<(Heard, u64)>,
    stop: &AtomicBool,
    meter: &mut ServerMeter,
    now_ns: &dyn Fn() -> u64,
) {
    let mut asked: Option<Instant> = None;
    while !stop.load(Ordering::Relaxed) {
        if asked.is_none_or(|asked| asked.elapsed() >= ASK_EVERY) {
            asked = Some(Instant::now());
            let heard = meter.read(now_ns);
            // A full queue means that the trace is busy: these are left out.
            if !heard.samples.is_empty() || !heard.news.is_empty() {
                let _ = sender.try_send((heard, now_ns()));
            }
        }
        std::thread::sleep(TURN);
    }
}

fn status(target: String, why: Option<String>, now_ns: u64) -> ProbeStatus {
    ProbeStatus {
        probe: "server".into(),
        target,
        file: String::new(),
        state: if why.is_some() { ProbeState::Refused } else { ProbeState::Attached },
        flavour: "poll".into(),
        since_ns: now_ns,
        reason: why.unwrap_or_default(),
    }
}
