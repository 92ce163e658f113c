//! What a fleet is told while a trace runs, and what it answers. The agent does not wait for it.

use crate::failure::Failure;
use crate::push_news::PushNews;
use crate::telemetry::Delivered;
use gpuwhy_agent::Update;
use gpuwhy_metrics::otlp::{Request, Resource};
use gpuwhy_metrics::ranks::{Ranks, Standing};
use gpuwhy_metrics::{Pusher, Target};
use gpuwhy_serve::lines_of;
use std::path::Path;
use std::time::{Duration, Instant};

/// What waits on disk while the fleet is away.
const MAX_SPOOL_BYTES: u64 = 256 << 20;
/// Snapshots come every second.
const EVERY: Duration = Duration::from_millis(900);

#[derive(Debug)]
pub(crate) struct Fleet {
    pusher: Pusher,
    target: Target,
    resource: Resource,
    ranks: Ranks,
    standing: Standing,
    pushed: Instant,
    /// Lines to be said.
    news: Vec<String>,
    reported: PushNews,
}

impl Fleet {
    pub(crate) fn start(url: &str, spool: &Path, host: &str) -> Result<Fleet, Failure> {
        let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        let mut target = Target::parse(url, variable).map_err(|error| Failure::Usage(error.to_string()))?;
        if !target.tls && !gpuwhy_model::is_loopback(&target.host) {
            return Err(Failure::Usage(format!(
                "--fleet {url} would send the token and all that is recorded in the clear; use https://, or http:// to the end of a \
                 tunnel on this host"
            )));
        }
        if let Some(token) = token(variable)? {
            target.headers.retain(|(name, _)| !name.eq_ignore_ascii_case("authorization"));
            target.headers.push(("authorization".into(), format!("Bearer {token}")));
        }
        let is_named = |target: &Target, name: &str| target.resource.iter().any(|(key, _)| key == name);
        if let Some(cluster) = variable("GPUWHY_CLUSTER").filter(|_| !is_named(&target, "cluster_id")) {
            target.resource.push(("cluster_id".into(), cluster));
        }
        if !is_named(&target, "node_id") {
            target.resource.push(("node_id".into(), host.into()));
        }
        let pusher = Pusher::with_spool(&target, spool, MAX_SPOOL_BYTES)
            .map_err(|why| Failure::Failed(format!("nothing can be sent to {}: {why}", target.url())))?;
        Ok(Fleet {
            resource: Resource::new(host, &target.resource),
            pusher,
            target,
            ranks: Ranks::default(),
            standing: Standing::default(),
            pushed: Instant::now(),
            news: Vec::new(),
            reported: PushNews::default(),
        })
    }

    pub(crate) fn take(&mut self, update: &Update) {
        match update {
            Update::Started { ops, .. } => self.ranks = Ranks::new(ops),
            Update::Batch(news) => self.ranks.take(&news.0, &news.1),
            Update::Snapshot(snapshot) if self.pushed.elapsed() >= EVERY => self.push(snapshot.now_ns),
            Update::Ended(result) => {
                if let Ok(summary) = &**result {
                    self.push(summary.last.now_ns);
                }
            }
            Update::Snapshot(_) | Update::Skipped(_) | Update::Attached(_) => {}
        }
    }

    fn push(&mut self, now_ns: u64) {
        self.pushed = Instant::now();
        let report = self.ranks.report(now_ns, &self.resource);
        report.requests.iter().for_each(|request| self.pusher.put(request));
        if let Some(advice) = self.pusher.advice() {
            self.standing.advise(advice, now_ns);
        }
        let reported = self.standing.see(&report.healths, now_ns);
        self.news.extend(reported.iter().map(|reported| format!("fleet: {}", reported.message())));
    }

    /// Findings, as log records about this host.
    pub(crate) fn put(&self, request: &Request) {
        self.pusher.put(request);
    }

    pub(crate) fn resource(&self) -> &Resource {
        &self.resource
    }

    /// What is worth a line since the last time.
    pub(crate) fn news(&mut self) -> Vec<String> {
        let mut news = std::mem::take(&mut self.news);
        let reported = self.reported.news(&self.pusher.delivery().now(), "waits on disk");
        news.extend(reported.iter().map(|words| format!("fleet at {}: {words}", self.target.url())));
        news
    }

    pub(crate) fn finish(self, within: Duration) -> Delivered {
        Delivered { url: self.target.url(), now: self.pusher.finish(within) }
    }
}

/// From the environment or a file, never from the command line, which everybody on the host sees.
fn token(variable: impl Fn(&str) -> Option<String>) -> Result<Option<String>, Failure> {
    let Some(file) = variable("GPUWHY_FLEET_TOKEN_FILE") else { return Ok(variable("GPUWHY_FLEET_TOKEN")) };
    let lines = lines_of(file.as_ref())
        .map_err(|error| Failure::Failed(format!("GPUWHY_FLEET_TOKEN_FILE: {error}")))?;
    Ok(lines.first().and_then(|line| line.split_whitespace().next()).map(String::from))
}
