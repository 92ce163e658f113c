//! `gpuwhy top`: the live screen of every GPU process; nothing is kept.

use crate::chosen::Who;
use crate::cli::TopOptions;
use crate::explanation::first_screen::verdict;
use crate::failure::Failure;
use crate::findings::Explainer;
use crate::screen::on_screen;
use crate::stream;
use crate::telemetry::Telemetry;
use gpuwhy_agent::{Agent, Config, Snapshot, Update};
use gpuwhy_confine::{Purpose, confine};
use gpuwhy_model::units::{clock, count, printable};
use gpuwhy_store::Options;
use std::collections::HashMap;
use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

/// What the last minute needs, and no more.
const MAX_SIZE: u64 = 64 << 20;
const MAX_PROCESSES: usize = 16;

pub(crate) fn run(options: TopOptions) -> Result<(), Failure> {
    // Findings are read from a trace: this one goes with the folder.
    let folder = tempfile::Builder::new()
        .prefix("gpuwhy-top-")
        .tempdir()
        .map_err(|error| Failure::no_folder(&error))?;
    let file = folder.path().join("top.db");
    let telemetry = Telemetry::start(None, None, None)?;
    let mut config = Config::new(file.clone());
    config.duration = options.duration;
    config.pids = Who::all_running(&options.pids)?;
    config.cgroup = options.cgroup;
    config.budget = Some(options.budget).filter(|share| *share < 1.0);
    config.store = Options { max_size: MAX_SIZE, ..Options::default() };
    config.watch_batches = options.json;
    config.flags = vec!["top".into()];
    let agent = Agent::spawn(config)?;
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM, signal_hook::consts::SIGHUP] {
        signal_hook::flag::register(signal, agent.stop_flag())?;
    }
    let explainer = Explainer::start(file, true);
    let (json, interval) = (options.json, options.interval);
    // A thread without privileges shows what others found; this one is left to clear the folder away.
    let showing = std::thread::Builder::new().name("gpuwhy-screen".into()).spawn(move || {
        confine(&Purpose::Serve);
        show(&agent, &explainer, json, interval, telemetry)
    })?;
    showing.join().unwrap_or_else(|_| Err(Failure::Failed("the screen ended without a word".into())))
}

fn show(
    agent: &Agent,
    explainer: &Explainer,
    json: bool,
    interval: Duration,
    mut telemetry: Telemetry,
) -> Result<(), Failure> {
    if json {
        return stream::run(agent, explainer, false, telemetry);
    }
    if std::io::stdout().is_terminal() {
        let ended = on_screen("top", None, agent, explainer, &mut telemetry)?;
        return ended.map_or(Ok(()), |result| Ok(result.map(drop)?));
    }
    in_lines(agent, explainer, interval)
}

/// A block of lines every so long.
fn in_lines(agent: &Agent, explainer: &Explainer, interval: Duration) -> Result<(), Failure> {
    let mut lines = Lines::default();
    let mut next = Instant::now() + interval;
    let mut found = None;
    for update in agent.updates().iter() {
        if let Some(explained) = explainer.newest() {
            found = Some(verdict(&explained));
        }
        match update {
            Update::Snapshot(snapshot) if Instant::now() >= next => {
                next = Instant::now() + interval;
                if let Err(error) = lines.write(&snapshot, found.as_deref(), &mut std::io::stdout()) {
                    // Whoever read the lines has gone.
                    agent.stop();
                    if error.kind() != std::io::ErrorKind::BrokenPipe {
                        return Err(error.into());
                    }
                }
            }
            Update::Ended(result) => {
                let summary = (*result)?;
                // One that ends sooner has said nothing yet.
                if lines.blocks == 0 {
                    lines.write(&summary.last, found.as_deref(), &mut std::io::stdout())?;
                }
                return Ok(());
            }
            _ => {}
        }
    }
    Ok(())
}

#[derive(Debug, Default)]
struct Lines {
    /// By process: its calls when the last block was written.
    calls: HashMap<u32, u64>,
    last_ns: u64,
    blocks: u64,
}

impl Lines {
    fn write(
        &mut self,
        snapshot: &Snapshot,
        verdict: Option<&str>,
        out: &mut impl Write,
    ) -> std::io::Result<()> {
        let mut calls: HashMap<u32, u64> = HashMap::new();
        for (pid, _, tally) in snapshot.tallies.by_process() {
            *calls.entry(pid).or_default() += tally.count;
        }
        let since_ns = if self.blocks == 0 { snapshot.start_ns } else { self.last_ns };
        let seconds = (snapshot.now_ns.saturating_sub(since_ns).max(1)) as f64 / 1e9;
        let mut rates: Vec<(u32, f64)> = calls
            .iter()
            .map(|(pid, calls)| {
                let before = self.calls.get(pid).copied().unwrap_or(0);
                (*pid, calls.saturating_sub(before) as f64 / seconds)
            })
            .collect();
        rates.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        let gpus: Vec<String> = snapshot
            .overview
            .gpus
            .values()
            .filter_map(|gpu| Some(format!("GPU {} busy {:.0}%", gpu.last.gpu, gpu.last.sm_pct?)))
            .collect();
        let gpus = if gpus.is_empty() { "no GPU counters".to_string() } else { gpus.join(", ") };
        writeln!(out, "{}  {gpus}", clock(snapshot.now_ns))?;
        if rates.is_empty() {
            writeln!(out, "   no process makes GPU calls")?;
        }
        for (pid, rate) in rates.iter().take(MAX_PROCESSES) {
            let process = snapshot.processes.iter().find(|process| process.pid == *pid);
            let name = process.map_or("process", |process| process.comm.as_str());
            let rank = process.and_then(|process| process.rank).map(|rank| format!(" rank {rank}"));
            let ended = process.is_some_and(|process| process.end_ns.is_some());
            let ended = if ended { "  (ended)" } else { "" };
            writeln!(
                out,
                "   {}[{pid}]{}  {} calls/s{ended}",
                printable(name),
                rank.unwrap_or_default(),
                count(rate.round() as u64),
            )?;
        }
        if let Some(verdict) = verdict {
            writeln!(out, "   => {}", printable(verdict))?;
        }
        (self.calls, self.last_ns) = (calls, snapshot.now_ns);
        self.blocks += 1;
        out.flush()
    }
}
