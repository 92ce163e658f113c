//! `gpuwhy trace`: record, with a live screen on a terminal.

use crate::chosen::Who;
use crate::cli::TraceOptions;
use crate::failure::Failure;
use crate::findings::Explainer;
use crate::log::log;
use crate::progress_lines::ProgressLines;
use crate::screen::{no_gpu_counters, on_screen};
use crate::summary::Detail;
use crate::telemetry::{Delivered, Deliveries, Telemetry};
use crate::{paths, stream, summary};
use gpuwhy_agent::{Agent, Config, Update};
use gpuwhy_confine::{Purpose, confine};
use gpuwhy_model::ProbeState;
use gpuwhy_probes::{Device, PROBES, Probe, When};
use gpuwhy_servers::Wanted;
use gpuwhy_store::{Access, Options, check_target};
use std::io::{IsTerminal, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

pub(crate) fn run(options: TraceOptions) -> Result<(), Failure> {
    let (json, no_status, duration) = (options.json, options.no_status, options.duration);
    let detail = match (options.verbose, options.quiet) {
        (true, _) => Detail::Tables,
        (_, true) => Detail::Quiet,
        _ => Detail::Answer,
    };
    let command = options.command.first().map(|word| word.to_string_lossy().into_owned());
    let spool = options.fleet_spool.clone().unwrap_or_else(paths::default_spool);
    let fleet = options.fleet.as_deref().map(|url| (url, spool.as_path()));
    // Said before anything is loaded, listened on or asked for.
    let given = options.out.clone();
    let create_folders = given.is_none();
    check_target(&given.unwrap_or_else(paths::default_trace), create_folders)?;
    let telemetry = Telemetry::start(options.prometheus.as_deref(), options.otlp.as_deref(), fleet)?;
    let mut config = config(options)?;
    config.watch_batches = json || telemetry.is_on();
    let (file, socket) = (config.out.clone(), config.annotate.clone());
    let agent = Agent::spawn(config)?;
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM, signal_hook::consts::SIGHUP] {
        signal_hook::flag::register(signal, agent.stop_flag())?;
    }
    // A command owns the terminal it was started on.
    let is_live = !json && std::io::stdout().is_terminal() && command.is_none();
    let lines = ProgressLines::new(command.is_some(), detail);
    let watches = json || is_live || telemetry.is_on() || lines.is_on();
    let explainer = Explainer::start(file.clone(), watches);
    // From here on it shows what others found: it needs no file and no privilege for that. What waits for a fleet is root's.
    confine(&if telemetry.has_fleet() { Purpose::Spool(spool) } else { Purpose::Serve });
    let result = if json {
        stream::run(&agent, &explainer, true, telemetry)
    } else if is_live {
        let mut telemetry = telemetry;
        match on_screen("trace", Some(&file), &agent, &explainer, &mut telemetry)? {
            Some(ended) => end(ended, &explainer, detail, telemetry, &mut std::io::stdout()),
            None => Ok(()),
        }
    } else {
        let started = Started { duration, command: command.is_some(), socket: socket.as_deref(), lines };
        plain(&agent, &explainer, &file, started, telemetry)
    };
    match result {
        Err(Failure::Traced(_)) if no_status => Ok(()),
        result => result,
    }
}

fn config(options: TraceOptions) -> Result<Config, Failure> {
    let given = options.out.is_some();
    let mut config = Config::new(options.out.unwrap_or_else(paths::default_trace));
    config.duration = options.duration;
    config.pids = Who::all_running(&options.pids)?;
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
    config.known_libraries = paths::known_libraries();
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
    let is_named = |names: &[String], probe: &Probe| names.iter().any(|name| name == probe.name);
    let is_needed = |names: &[String], probe: &Probe| {
        PROBES.iter().any(|other| other.needs == Some(probe.name) && is_named(names, other))
    };
    let wanted = |probe: &&'static Probe| match (probe.when, names) {
        (When::Always, _) => true,
        (When::Asked, None) => rdma_verbs,
        (When::Default, None) => true,
        (_, Some(names)) => {
            is_named(names, probe) || is_needed(names, probe) || (rdma_verbs && probe.when == When::Asked)
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

/// What there is to know of a trace without a screen.
#[derive(Debug)]
struct Started<'a> {
    duration: Option<Duration>,
    /// A command was started, and has the terminal.
    command: bool,
    socket: Option<&'a Path>,
    lines: ProgressLines,
}

/// No terminal: lines of how far it is on stderr, the summary at the end on stdout.
fn plain(
    agent: &Agent,
    explainer: &Explainer,
    file: &Path,
    started: Started<'_>,
    mut telemetry: Telemetry,
) -> Result<(), Failure> {
    let Started { duration, command, socket, mut lines } = started;
    for update in agent.updates().iter() {
        telemetry.take(&update);
        match update {
            Update::Started { .. } => {
                log!("tracing into {} {}", file.display(), until(command, duration));
                if let Some(socket) = socket {
                    log!("annotations are taken at {}", socket.display());
                }
            }
            Update::Attached(statuses) => {
                for status in statuses.iter().filter(|status| status.state == ProbeState::Refused) {
                    log!("{} {} is not traced: {}", status.file, status.target, status.reason);
                }
                if let Some(why) = no_gpu_counters(&statuses) {
                    log!("no counters of GPUs: {why}");
                }
            }
            Update::Ended(result) => {
                return end(*result, explainer, lines.detail(), telemetry, &mut std::io::stdout());
            }
            Update::Snapshot(snapshot) => {
                if let Some(line) = lines.line(&snapshot) {
                    log!("{line}");
                }
            }
            Update::Batch(_) | Update::Skipped(_) => {}
        }
        if let Some(explained) = explainer.newest() {
            telemetry.take_findings(&explained.findings);
            lines.take(&explained);
        }
        for news in telemetry.news() {
            log!("{news}");
        }
    }
    Ok(())
}

/// When it ends by itself, and what ends it before.
fn until(command: bool, duration: Option<Duration>) -> String {
    match (command, duration) {
        (true, None) => "until the command ends".into(),
        (true, Some(most)) => format!("until the command ends, {} at most", words(most)),
        (false, None) => "until Ctrl-C".into(),
        (false, Some(most)) => format!("for {}; Ctrl-C ends it before", words(most)),
    }
}

fn words(duration: Duration) -> String {
    match duration.subsec_nanos() {
        0 => format!("{}s", duration.as_secs()),
        _ => gpuwhy_model::units::duration(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)),
    }
}

fn end(
    result: Result<gpuwhy_agent::Summary, gpuwhy_agent::AgentError>,
    explainer: &Explainer,
    detail: Detail,
    mut telemetry: Telemetry,
    out: &mut impl Write,
) -> Result<(), Failure> {
    let summary = result?;
    let explained = explainer.conclude(summary.last.start_ns);
    if let Some(explained) = &explained {
        telemetry.take_findings(&explained.findings);
    }
    let Deliveries { otlp, fleet } = telemetry.finish();
    summary::write(&summary, explained.as_ref(), detail, out)?;
    if let Some(Delivered { url, now }) = otlp {
        writeln!(out, "OTLP:  {url}: {}", now.message())?;
    }
    if let Some(Delivered { url, now }) = fleet {
        let waits = match now.queued_bytes {
            0 => String::new(),
            bytes => format!("; {} wait on disk for the next trace", gpuwhy_model::units::size(bytes)),
        };
        writeln!(out, "Fleet: {url}: {}{waits}", now.message())?;
    }
    Failure::of_command(summary.command_status)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_long_it_traces_is_said_as_it_is() {
        let seconds = |n| Some(Duration::from_secs(n));
        assert_eq!(until(false, None), "until Ctrl-C");
        assert_eq!(until(false, seconds(13)), "for 13s; Ctrl-C ends it before");
        assert_eq!(until(false, Some(Duration::from_millis(1500))), "for 1.50s; Ctrl-C ends it before");
        assert_eq!(until(true, None), "until the command ends");
        assert_eq!(until(true, seconds(60)), "until the command ends, 60s at most");
    }
}
