//! Drives a load in real time: the simulation goes with the clock, pushes are sent when they are due, and the fleet is asked
//! every two seconds what it found.

use crate::LoadError;
use crate::address::Address;
use crate::ask::Asker;
use crate::jobs::{Job, jobs};
use crate::otlp::{Of, logs, metrics};
use crate::report::Report;
use crate::score::{self, Said};
use crate::send::Sender;
use bytes::Bytes;
use gpuwhy_connect::grpc::{LOGS, METRICS};
use prost::Message;
use serde_json::json;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// How often the simulation goes on.
const TICK: Duration = Duration::from_millis(50);
const ASKED_EVERY: Duration = Duration::from_secs(2);

/// What is to be simulated, and against which server.
#[derive(Debug, Clone, PartialEq)]
pub struct Load {
    pub grpc: String,
    pub api: String,
    pub token: Option<String>,
    /// Those to trust, instead of the system's.
    pub certificates: Option<PathBuf>,
    pub cluster: String,
    pub agents: usize,
    /// Of a job.
    pub ranks: usize,
    pub seconds: f64,
    pub push_seconds: f64,
    /// Share of the jobs with a straggler, and of those that stop.
    pub stragglers: f64,
    pub hangs: f64,
    pub clock_offset_seconds: f64,
    pub connections: usize,
    pub seed: u64,
}

impl Default for Load {
    fn default() -> Load {
        Load {
            grpc: "http://127.0.0.1:4317".into(),
            api: "http://127.0.0.1:8081".into(),
            token: None,
            certificates: None,
            cluster: "load".into(),
            agents: 64,
            ranks: 8,
            seconds: 60.0,
            push_seconds: 1.0,
            stragglers: 0.5,
            hangs: 0.1,
            clock_offset_seconds: 5.0,
            connections: 32,
            seed: 1,
        }
    }
}

/// Runs it to its end, or until Ctrl-C: what was found by then is told.
pub fn load(load: &Load) -> Result<Report, LoadError> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(run(load))
}

async fn run(load: &Load) -> Result<Report, LoadError> {
    let (pushed, asked) = (Address::parse(&load.grpc)?, Address::parse(&load.api)?);
    let connector = pushed.connector(load.certificates.as_deref(), "h2")?;
    let sender = Arc::new(Sender::new(&pushed, &connector, load.token.as_deref(), load.connections)?);
    let connector = asked.connector(load.certificates.as_deref(), "http/1.1")?;
    let asker = Asker::new(asked, connector, load.token.as_deref());
    let begun = Instant::now();
    let mut jobs = jobs(load, now_ns());
    let (mut message, mut points, mut late) = (Said::default(), 0, 0);
    let mut asked = Instant::now();
    let mut at = 0.0;
    let mut interrupted = pin!(tokio::signal::ctrl_c());
    while at < load.seconds {
        tokio::select! {
            () = tokio::time::sleep(TICK) => {}
            _ = &mut interrupted => break,
        }
        at = begun.elapsed().as_secs_f64();
        for (number, job) in jobs.iter_mut().enumerate() {
            job.machine.run_to(at);
            for push in job.agents.pushes_to(&mut job.machine, at) {
                let now = now_ns();
                let behind = now.saturating_sub(push.seen_ns) as f64 / 1e9;
                late += u64::from(behind > load.push_seconds / 2.0);
                let of = Of {
                    cluster: &load.cluster,
                    job: &job.name,
                    nranks: job.plan.ranks,
                    now_ns: now.saturating_add_signed(push.ahead_ns),
                };
                points += (push.samples.len() + push.calls.len()) as u64;
                let agent = number * job.plan.ranks + push.rank as usize;
                let gauges = Bytes::from(metrics(&push, &of).encode_to_vec());
                let calls = logs(&push, &of).map(|logs| Bytes::from(logs.encode_to_vec()));
                let sender = sender.clone();
                tokio::spawn(async move {
                    sender.send(agent, METRICS, gauges).await;
                    if let Some(calls) = calls {
                        sender.send(agent, LOGS, calls).await;
                    }
                });
            }
        }
        if asked.elapsed() >= ASKED_EVERY {
            asked = Instant::now();
            ask(&asker, load, &mut message).await?;
        }
    }
    // What is on its way still counts.
    tokio::time::sleep(Duration::from_secs(2)).await;
    ask(&asker, load, &mut message).await?;
    let seconds = begun.elapsed().as_secs_f64();
    let clock_worst_error_ns = clocks(&asker, load, &jobs, seconds).await?;
    let ran = Ran { seconds: at.min(load.seconds), points, late_pushes: late, clock_worst_error_ns };
    report(load.seed, &jobs, &sender, &message, &ran)
}

async fn ask(asker: &Asker, load: &Load, message: &mut Said) -> Result<(), LoadError> {
    let asked = json!({"cluster_id": load.cluster});
    message.verdicts(&asker.tool("fleet.cluster.find_outlier_nodes", &asked).await?);
    message.autopsies(&asker.tool("fleet.cluster.hang_autopsy", &asked).await?, now_ns());
    Ok(())
}

async fn clocks(asker: &Asker, load: &Load, jobs: &[Job], seconds: f64) -> Result<Option<u64>, LoadError> {
    let several = |job: &&Job| job.plan.ranks > job.plan.ranks_a_node && job.machine.stopped.is_none();
    let Some(job) = jobs.iter().find(several) else { return Ok(None) };
    let asked = json!({"cluster_id": load.cluster, "job_id": job.name, "since": "20s"});
    let answer = asker.tool("fleet.cluster.collectives", &asked).await?;
    let (worst, reported) = score::clocks(job, seconds, &answer);
    Ok((reported > 0).then_some(worst))
}

/// What came of a run, beside what the server and the connections tell.
struct Ran {
    seconds: f64,
    points: u64,
    late_pushes: u64,
    clock_worst_error_ns: Option<u64>,
}

fn report(seed: u64, jobs: &[Job], sender: &Sender, message: &Said, ran: &Ran) -> Result<Report, LoadError> {
    let counts = &sender.counts;
    let (requests, failed) = (counts.taken.load(Ordering::Relaxed), counts.failed.load(Ordering::Relaxed));
    if requests == 0 {
        let message = counts.last_error.lock().ok().and_then(|last| last.clone()).unwrap_or_default();
        return Err(LoadError::NothingTaken { pushes: failed, message });
    }
    let mut micros = counts.micros.lock().map(|micros| micros.clone()).unwrap_or_default();
    micros.sort_unstable();
    let quantile = |q: f64| {
        let at = ((micros.len().max(1) - 1) as f64 * q) as usize;
        f64::from(micros.get(at).copied().unwrap_or(0)) / 1e3
    };
    Ok(Report {
        seed,
        agents: jobs.iter().map(|job| job.plan.ranks).sum(),
        jobs: jobs.len(),
        seconds: ran.seconds,
        requests,
        requests_again: counts.again.load(Ordering::Relaxed),
        requests_failed: failed,
        points: ran.points,
        bytes: counts.bytes.load(Ordering::Relaxed),
        reply_p50_ms: quantile(0.5),
        reply_p99_ms: quantile(0.99),
        reply_max_ms: quantile(1.0),
        late_pushes: ran.late_pushes,
        stragglers: score::stragglers(jobs, message),
        hangs: score::hangs(jobs, message),
        clock_worst_error_ns: ran.clock_worst_error_ns,
    })
}

fn now_ns() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64)
}
