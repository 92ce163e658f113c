//! What others are told while a trace runs: the page Prometheus scrapes, what is pushed by OTLP, and the fleet, each in a
//! thread of its own. The agent waits for none.

use crate::failure::Failure;
use crate::fleet::Fleet;
use crate::log::log;
use crate::push_news::PushNews;
use gpuwhy_agent::{Snapshot, Summary, Update};
use gpuwhy_metrics::otlp::{self, Resource, Signal};
use gpuwhy_metrics::push::{DeliveryNow, GivenUp};
use gpuwhy_metrics::{PageError, Pusher, Server, Shared, State, Target};
use gpuwhy_model::Finding;
use std::path::Path;
use std::sync::{MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// A trace that was stopped ends within a second: from its end on so long is sent what is left.
const FLUSH_WITHIN: Duration = Duration::from_millis(900);
/// Concluding may have taken most of it.
const FLUSH_AT_LEAST: Duration = Duration::from_millis(200);

/// Nothing of it where nobody asked.
#[derive(Debug, Default)]
pub(crate) struct Telemetry {
    host: String,
    state: Shared,
    /// Answers until this is dropped.
    server: Option<Server>,
    push: Option<Push>,
    fleet: Option<Fleet>,
    /// When the trace was over.
    ended: Option<Instant>,
}

#[derive(Debug)]
struct Push {
    pusher: Pusher,
    target: Target,
    resource: Resource,
    pushed: Instant,
    reported: PushNews,
}

/// What became of everything, by where it went.
#[derive(Debug)]
pub(crate) struct Deliveries {
    pub(crate) otlp: Option<Delivered>,
    pub(crate) fleet: Option<Delivered>,
}

/// What became of what was pushed, and where to.
#[derive(Debug)]
pub(crate) struct Delivered {
    pub(crate) url: String,
    pub(crate) now: DeliveryNow,
}

impl Telemetry {
    /// Listens and connects as far as it was asked to; says where the page is.
    pub(crate) fn start(
        prometheus: Option<&str>,
        otlp: Option<&str>,
        fleet: Option<(&str, &Path)>,
    ) -> Result<Telemetry, Failure> {
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let mut telemetry = Telemetry { host, ..Telemetry::default() };
        if let Some(url) = otlp {
            telemetry.push = Some(Push::start(url, &telemetry.host)?);
        }
        if let Some((url, spool)) = fleet {
            telemetry.fleet = Some(Fleet::start(url, spool, &telemetry.host)?);
        }
        if let Some(address) = prometheus {
            let server = Server::start(address, telemetry.state.clone()).map_err(|error| match error {
                PageError::Address(_) => Failure::Usage(error.to_string()),
                PageError::Listen { .. } | PageError::Thread(_) => Failure::Failed(error.to_string()),
            })?;
            log!("metrics at http://{}/metrics", server.address());
            if server.is_open() {
                log!(
                    "that address is not this host's alone: whoever reaches it reads them, without TLS or a password"
                );
            }
            telemetry.server = Some(server);
        }
        Ok(telemetry)
    }

    /// Whether batches and findings are wanted.
    pub(crate) fn is_on(&self) -> bool {
        self.server.is_some() || self.push.is_some() || self.fleet.is_some()
    }

    /// Whether what cannot be sent is put on the disk by whoever hands it over.
    pub(crate) fn has_fleet(&self) -> bool {
        self.fleet.is_some()
    }

    pub(crate) fn take(&mut self, update: &Update) {
        if !self.is_on() {
            return;
        }
        if let Some(fleet) = &mut self.fleet {
            fleet.take(update);
        }
        match update {
            Update::Started { start_ns, ops, .. } => {
                let state = State::new(&self.host, *start_ns, ops, self.push.is_some());
                *self.lock() = Some(state);
            }
            Update::Batch(news) => {
                if let Some(state) = &mut *self.lock() {
                    state.take(&news.0, &news.1);
                }
            }
            Update::Snapshot(snapshot) => {
                self.see(snapshot);
                self.push_metrics(false);
            }
            Update::Ended(result) => {
                self.ended = Some(Instant::now());
                if let Ok(Summary { last, .. }) = &**result {
                    self.see(last);
                    self.push_metrics(true);
                }
            }
            Update::Attached(_) | Update::Skipped(_) => {}
        }
    }

    /// Those of now; what is new is pushed.
    pub(crate) fn take_findings(&mut self, findings: &[Finding]) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(state) = &mut *state else { return };
        let now_ns = state.now_ns();
        let news = state.see_findings(findings);
        if let Some(push) = &self.push
            && let Some(request) = otlp::logs(news.iter().copied(), now_ns, &push.resource)
        {
            push.pusher.put(&request);
        }
        if let Some(fleet) = &self.fleet
            && let Some(request) = otlp::logs(news.iter().copied(), now_ns, fleet.resource())
        {
            fleet.put(&request);
        }
    }

    /// Sends what is left. What became of everything that was pushed.
    pub(crate) fn finish(self) -> Deliveries {
        let ended = self.ended;
        let within = || {
            let since = ended.map_or(Duration::ZERO, |ended| ended.elapsed());
            FLUSH_WITHIN.saturating_sub(since).max(FLUSH_AT_LEAST)
        };
        let fleet = self.fleet.map(|fleet| fleet.finish(within()));
        let otlp =
            self.push.map(|push| Delivered { url: push.target.url(), now: push.pusher.finish(within()) });
        Deliveries { otlp, fleet }
    }

    /// What is worth a line: trouble with pushing, told once, and what the fleet makes of this host's ranks.
    pub(crate) fn news(&mut self) -> Vec<String> {
        let mut news = self.fleet.as_mut().map(Fleet::news).unwrap_or_default();
        if let Some(push) = &mut self.push {
            let now = push.pusher.delivery().now();
            let reported = push.reported.news(&now, "is counted");
            news.extend(reported.iter().map(|words| format!("OTLP to {}: {words}", push.target.url())));
        }
        news
    }

    fn lock(&self) -> MutexGuard<'_, Option<State>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn see(&self, snapshot: &Snapshot) {
        if let Some(state) = &mut *self.lock() {
            state.see_probes(snapshot.now_ns, &snapshot.probes);
            state.see_own(snapshot.own.cpu_time.as_nanos() as u64, snapshot.own.rss_bytes);
            if let Some(push) = &self.push {
                state.see_delivery(&push.pusher.delivery().now());
            }
        }
    }

    /// When it is time, or the last time.
    fn push_metrics(&mut self, at_last: bool) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let (Some(push), Some(state)) = (&mut self.push, &mut *state) else { return };
        if !at_last && push.pushed.elapsed() < push.target.every {
            return;
        }
        push.pushed = Instant::now();
        if let Some(spans) = state.spans() {
            push.pusher.delivery().dropped(Signal::Traces, GivenUp::Queue, spans.given_up());
            spans.drain(&push.resource).iter().for_each(|request| push.pusher.put(request));
        }
        let requests = otlp::metrics(state, &push.resource, push.target.histograms);
        requests.iter().for_each(|request| push.pusher.put(request));
        state.pushed();
    }
}

impl Push {
    fn start(url: &str, host: &str) -> Result<Push, Failure> {
        let target = Target::parse(url, |name| std::env::var(name).ok())
            .map_err(|error| Failure::Usage(error.to_string()))?;
        let pusher = Pusher::start(&target)
            .map_err(|why| Failure::Failed(format!("nothing can be sent to {}: {why}", target.url())))?;
        let resource = Resource::new(host, &target.resource);
        Ok(Push { pusher, target, resource, pushed: Instant::now(), reported: PushNews::default() })
    }
}

impl Delivered {
    /// For `--json`.
    pub(crate) fn json(&self) -> serde_json::Value {
        let sent: serde_json::Map<String, serde_json::Value> =
            self.now.sent.iter().map(|(signal, n)| (signal.items().into(), (*n).into())).collect();
        let dropped: Vec<serde_json::Value> = self
            .now
            .dropped
            .iter()
            .map(|((signal, why), n)| {
                serde_json::json!({"items": signal.items(), "reason": why.name(), "count": n})
            })
            .collect();
        let not_taken: Vec<&str> = self.now.not_taken.keys().map(|signal| signal.name()).collect();
        serde_json::json!({
            "url": self.url, "sent": sent, "dropped": dropped, "retries": self.now.retries, "trouble": self.now.trouble,
            "not_taken": not_taken,
        })
    }
}
