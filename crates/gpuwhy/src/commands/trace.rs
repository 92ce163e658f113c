//! `gpuwhy trace`: record, with a live screen on a terminal.

use crate::cli::TraceOptions;
use crate::failure::Failure;
use crate::findings::{Watcher, conclude};
use crate::screen::Screen;
use crate::telemetry::{Delivered, Deliveries, Telemetry};
use crate::{paths, stream, summary};
use gpuwhy_agent::{Agent, Config, Update};
use gpuwhy_model::{ProbeState, ProbeStatus};
use gpuwhy_probes::{Device, PROBES, Probe, When};
use gpuwhy_servers::Wanted;
use gpuwhy_store::{Access, Options};
use std::io::{IsTerminal, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::Duration;

pub(crate) fn run(options: TraceOptions) -> Result<(), Failure> {
    let json = options.json;
    let command = options.command.first().map(|word| word.to_string_lossy().into_owned());
    let spool = options.fleet_spool.clone().unwrap_or_else(paths::default_spool);
    let fleet = options.fleet.as_deref().map(|url| (url, spool.as_path()));
    let telemetry = Telemetry::start(options.prometheus.as_deref(), options.otlp.as_deref(), fleet)?;
    let mut config = config(options)?;
    config.watch_batches = json || telemetry.is_on();
    let (file, socket) = (config.out.clone(), config.annotate.clone());
    let agent = Agent::spawn(config)?;
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM, signal_hook::consts::SIGHUP] {
        signal_hook::flag::register(signal, agent.stop_flag())?;
    }
    // A command owns the terminal it was started on.
    if json {
        stream::run(&agent, &file, telemetry)
    } else if std::io::stdout().is_terminal() && command.is_none() {
        live(&agent, &file, telemetry)
    } else {
        quiet(&agent, &file, command.as_deref(), socket.as_deref(), telemetry)
    }
}

fn config(options: TraceOptions) -> Result<Config, Failure> {
    let given = options.out.is_some();
    let mut config = Config::new(options.out.unwrap_or_else(paths::default_trace));
    config.duration = options.duration;
    config.pids = options.pids;
    config.cgroup = options.cgroup;
    config.command = (!options.command.is_empty()).then_some(options.command);
    config.probes = chosen_probes(options.probes.as_deref(), options.rdma_verbs)?;
    config.devices = options.driver_device.iter().map(|path| device(path)).collect::<Result<_, _>>()?;
    config.driver_functions = options.driver_function;
    config.annotate = options.annotate.map(socket).transpose()?;
    config.servers = options.servers.as_deref().map(servers).transpose()?;
    config.stacks = options.stacks.into();
    config.keep_all = options.keep_all;
    config.budget = Some(options.budget).filter(|share| *share < 1.0);
    // The folder of the default file is ours to make; one the user named is not.
    let access = Access { group: options.group };
    config.store = Options { max_size: options.max_size, create_folders: !given, access };
    config.flavour = options.attach.map(Into::into);
    config.mask = !options.no_mask;
    config.flags = std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned()).collect();
    Ok(config)
}

/// The one that was named, or where programs look by themselves.
fn socket(named: Option<PathBuf>) -> Result<PathBuf, Failure> {
    let path = named.or_else(gpuwhy_annotations::default_path).ok_or_else(|| {
        Failure::Usage(
            "there is no folder for sockets, as XDG_RUNTIME_DIR is not set; name one with --annotate=PATH"
                .into(),
        )
    })?;
    // The command it is named to may work in another folder.
    Ok(std::path::absolute(&path).unwrap_or(path))
}

fn servers(urls: &[String]) -> Result<Wanted, Failure> {
    if urls.is_empty() {
        return Ok(Wanted::Found);
    }
    let targets = urls.iter().map(|url| gpuwhy_servers::target(url)).collect::<Result<_, _>>();
    targets.map(Wanted::Named).map_err(|why| Failure::Usage(format!("--servers: {why}")))
}

/// In the table's order: later ones use what earlier ones make.
fn chosen_probes(names: Option<&[String]>, rdma_verbs: bool) -> Result<Vec<&'static Probe>, Failure> {
    let known = || PROBES.iter().map(|probe| probe.name).collect::<Vec<_>>().join(", ");
    for name in names.unwrap_or_default() {
        if PROBES.iter().all(|probe| probe.name != name) {
            return Err(Failure::Usage(format!("there is no probe '{name}'; there are {}", known())));
        }
    }
    let wanted = |probe: &&'static Probe| match (probe.when, names) {
        (When::Always, _) => true,
        (When::Asked, None) => rdma_verbs,
        (When::Default, None) => true,
        (_, Some(names)) => {
            names.iter().any(|name| name == probe.name) || (rdma_verbs && probe.when == When::Asked)
        }
    };
    Ok(PROBES.iter().copied().filter(wanted).collect())
}

fn device(path: &Path) -> Result<Device, Failure> {
    let wrong = |why: &str| Failure::Usage(format!("{} {why}; name a device file", path.display()));
    let metadata = std::fs::metadata(path).map_err(|error| wrong(&format!("cannot be read: {error}")))?;
    if !metadata.file_type().is_char_device() {
        return Err(wrong("is not a character device"));
    }
    let (major, minor) = (rustix::fs::major(metadata.rdev()), rustix::fs::minor(metadata.rdev()));
    Ok(Device { name: "device".into(), major, minor: Some(minor) })
}

/// The live screen until the trace ends, then the summary.
fn live(agent: &Agent, file: &Path, mut telemetry: Telemetry) -> Result<(), Failure> {
    let mut screen: Option<Screen> = None;
    let watcher = Watcher::start(file.to_path_buf());
    let stop = agent.stop_flag();
    loop {
        let update = agent.updates().recv_timeout(Duration::from_millis(100));
        if let Ok(update) = &update {
            telemetry.take(update);
        }
        match update {
            Ok(Update::Started { ops, flavour, .. }) => screen = Some(Screen::open(ops, flavour)?),
            Ok(Update::Snapshot(snapshot)) => {
                if let Some(screen) = &mut screen {
                    screen.show(snapshot)?;
                }
            }
            Ok(Update::Ended(result)) => {
                drop(watcher);
                drop(screen);
                return end(*result, telemetry, &mut std::io::stdout());
            }
            Ok(Update::Attached(statuses)) => {
                if let (Some(screen), Some(why)) = (&mut screen, no_gpu_counters(&statuses)) {
                    screen.say_no_gpus(why);
                }
            }
            Ok(Update::Batch(_)) => {}
            Err(std::sync::mpsc::RecvTimeoutError::Timeout) => {}
            Err(std::sync::mpsc::RecvTimeoutError::Disconnected) => return Ok(()),
        }
        if let (Some(screen), Some(explained)) = (&mut screen, watcher.as_ref().and_then(Watcher::newest)) {
            telemetry.take_findings(&explained.findings);
            screen.show_explained(explained)?;
        }
        if let Some(screen) = &mut screen
            && screen.wants_to_quit()?
        {
            stop.store(true, Ordering::Relaxed);
        }
    }
}

/// No terminal: a word at the start on stderr, the summary at the end on stdout.
fn quiet(
    agent: &Agent,
    file: &Path,
    command: Option<&str>,
    socket: Option<&Path>,
    mut telemetry: Telemetry,
) -> Result<(), Failure> {
    let watcher = telemetry.is_on().then(|| Watcher::start(file.to_path_buf())).flatten();
    for update in agent.updates() {
        telemetry.take(&update);
        match update {
            Update::Started { .. } => {
                let until = if command.is_some() { "until the command ends" } else { "until Ctrl-C" };
                eprintln!("gpuwhy: tracing into {} {until}", file.display());
                if let Some(socket) = socket {
                    eprintln!("gpuwhy: annotations are taken at {}", socket.display());
                }
            }
            Update::Attached(statuses) => {
                for status in statuses.iter().filter(|status| status.state == ProbeState::Refused) {
                    eprintln!("gpuwhy: {} {} is not traced: {}", status.file, status.target, status.reason);
                }
                if let Some(why) = no_gpu_counters(&statuses) {
                    eprintln!("gpuwhy: no counters of GPUs: {why}");
                }
            }
            Update::Ended(result) => {
                drop(watcher);
                return end(*result, telemetry, &mut std::io::stdout());
            }
            Update::Batch(_) | Update::Snapshot(_) => {}
        }
        if let Some(explained) = watcher.as_ref().and_then(Watcher::newest) {
            telemetry.take_findings(&explained.findings);
        }
        for news in telemetry.news() {
            eprintln!("gpuwhy: {news}");
        }
    }
    Ok(())
}

/// Why there are none; told once a trace.
fn no_gpu_counters(statuses: &[ProbeStatus]) -> Option<&str> {
    let absent = |status: &&ProbeStatus| status.target == "nvml" && status.state == ProbeState::Absent;
    statuses.iter().find(absent).map(|status| status.reason.as_str())
}

fn end(
    result: Result<gpuwhy_agent::Summary, gpuwhy_agent::AgentError>,
    mut telemetry: Telemetry,
    out: &mut impl Write,
) -> Result<(), Failure> {
    let summary = result?;
    let explained = conclude(&summary.file, summary.last.start_ns);
    if let Some(explained) = &explained {
        telemetry.take_findings(&explained.findings);
    }
    let Deliveries { otlp, fleet } = telemetry.finish();
    summary::write(&summary, explained.as_ref(), out)?;
    if let Some(Delivered { url, now }) = otlp {
        writeln!(out, "OTLP:  {url}: {}", now.said())?;
    }
    if let Some(Delivered { url, now }) = fleet {
        let waits = match now.queued_bytes {
            0 => String::new(),
            bytes => format!("; {} wait on disk for the next trace", gpuwhy_model::units::size(bytes)),
        };
        writeln!(out, "Fleet: {url}: {}{waits}", now.said())?;
    }
    Ok(())
}
