//! What can be asked of this host: is it ready, do the probes fire, what does a stall look like. A small table beside the
//! query layer's, whose questions are of a trace. Each runs this program once more, so that it can be ended at any time.

use super::check::CheckReport;
use super::demo::DemoReport;
use gpuwhy_confine::{Purpose, confine};
use gpuwhy_query::{QueryError, parse};
use gpuwhy_serve::HostEndpoint;
use gpuwhy_store::Stop;
use rustix::process::{Pid, Signal, kill_process_group};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

pub(crate) static HOST: &[HostEndpoint] = &[
    HostEndpoint {
        name: "check",
        tool: "get_check",
        about: "whether this host can trace: kernel, BTF, privileges, probes, hazards, GPUs and driver, GPU processes, Pythons; each \
                failing line carries its fix",
        next: "get_test_report proves that the probes fire; get_trace says whether there is a trace already",
        request: |schemas| schemas.root_schema_for::<Nothing>(),
        answer: |schemas| schemas.root_schema_for::<CheckReport>(),
        run: |request, stop| {
            parse::<Nothing>(request)?;
            own(Asked::Check, stop)
        },
    },
    HostEndpoint {
        name: "test_report",
        tool: "get_test_report",
        about: "the probe self-test: every probe on a built-in simulated GPU, which fired as often as it was called, and what a trap \
                costs here; takes some seconds, and needs the privileges that tracing needs",
        next: "get_check says what to do where something failed",
        request: |schemas| schemas.root_schema_for::<Nothing>(),
        answer: |schemas| schemas.root_schema_for::<CheckReport>(),
        run: |request, stop| {
            parse::<Nothing>(request)?;
            own(Asked::SelfTest, stop)
        },
    },
    HostEndpoint {
        name: "demo",
        tool: "run_demo",
        about: "a recorded stall, explained: what an answer looks like where there is no trace yet; nothing is traced and nothing kept",
        next: "get_causal_chains asks the same of your own trace",
        request: |schemas| schemas.root_schema_for::<DemoRequest>(),
        answer: |schemas| schemas.root_schema_for::<DemoReport>(),
        run: |request, stop| demo(&parse(request)?, stop),
    },
];

/// There is nothing to choose.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct Nothing {}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct DemoRequest {
    /// Which one, as `cpu-hog`, `h200-loader` or `h200-item`; the first where nothing is given. A wrong name is answered with all names.
    scenario: Option<String>,
}

fn demo(request: &DemoRequest, stop: &Stop) -> Result<Value, QueryError> {
    let folder = tempfile::tempdir().map_err(|error| failed(&error))?;
    let file = folder.path().join("demo.db");
    let mut report = own(Asked::Demo { file, scenario: request.scenario.clone() }, stop)?;
    report["file"] = Value::Null;
    Ok(report)
}

fn failed(error: &std::io::Error) -> QueryError {
    QueryError::Failed(format!("the host could not be asked: {error}"))
}

/// What this program is run for once more.
#[derive(Debug)]
enum Asked {
    Check,
    SelfTest,
    Demo { file: PathBuf, scenario: Option<String> },
}

impl Asked {
    fn needs_privileges(&self) -> bool {
        matches!(self, Asked::Check | Asked::SelfTest)
    }

    fn command(&self, out: File, message: File) -> Command {
        let mut command = Command::new("/proc/self/exe");
        match self {
            Asked::Check => command.args(["check", "--json"]),
            Asked::SelfTest => command.args(["check", "--json", "--selftest"]),
            // It cannot be taken for an option.
            Asked::Demo { file, scenario } => {
                command.args(["demo", "--replay", "--json", "--out"]).arg(file).arg("--").args(scenario)
            }
        };
        command.stdin(Stdio::null()).stdout(out).stderr(message).process_group(0);
        // Secrets of the server are not for its children.
        command.env_remove("GPUWHY_TOKEN");
        command
    }
}

/// Starts what needs the privileges that the server gives up, and nothing else.
#[derive(Debug)]
struct Starter {
    requests: Sender<Request>,
}

type Request = (Asked, File, File, Sender<std::io::Result<Child>>);

const NAME: &str = "gpuwhy-host";
static STARTER: OnceLock<Mutex<Starter>> = OnceLock::new();

/// Gives up what serving a trace does not need. To be called by the one thread there is, before it reads anything of others.
pub(crate) fn serve_only(file: &Path) {
    let (requests, inbox) = channel::<Request>();
    let run = move || {
        for (asked, out, message, outbox) in inbox {
            // Who asked may have gone.
            let _ = outbox.send(asked.command(out, message).spawn());
        }
    };
    if std::thread::Builder::new().name(NAME.into()).spawn(run).is_ok() {
        let _ = STARTER.set(Mutex::new(Starter { requests }));
    }
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    confine(&Purpose::Front(folder.into()));
}

fn start(asked: Asked, out: File, message: File) -> std::io::Result<Child> {
    let starter = STARTER.get().filter(|_| asked.needs_privileges());
    let Some(starter) = starter else { return asked.command(out, message).spawn() };
    let gone = || std::io::Error::other("the thread that starts it has ended");
    let (outbox, started) = channel();
    let sent =
        starter.lock().unwrap_or_else(PoisonError::into_inner).requests.send((asked, out, message, outbox));
    sent.map_err(|_| gone())?;
    started.recv().map_err(|_| gone())?
}

/// What this program prints as JSON.
fn own(asked: Asked, stop: &Stop) -> Result<Value, QueryError> {
    let folder = tempfile::tempdir().map_err(|error| failed(&error))?;
    let (out, message) = (folder.path().join("out"), folder.path().join("err"));
    let create = |path: &Path| File::create(path).map_err(|error| failed(&error));
    let mut child = start(asked, create(&out)?, create(&message)?).map_err(|error| failed(&error))?;
    let status = loop {
        if let Some(status) = child.try_wait().map_err(|error| failed(&error))? {
            break status;
        }
        if stop.is_stopped() {
            if let Some(group) = Pid::from_raw(child.id() as i32) {
                // It may just have ended.
                let _ = kill_process_group(group, Signal::KILL);
            }
            let _ = child.wait();
            return Err(gpuwhy_store::StoreError::Stopped.into());
        }
        std::thread::sleep(Duration::from_millis(10));
    };
    // A report of what is wrong is a report, whatever the status.
    let text = std::fs::read_to_string(&out).map_err(|error| failed(&error))?;
    serde_json::from_str(&text)
        .map_err(|_| refusal(status, &std::fs::read_to_string(&message).unwrap_or_default()))
}

/// The sentence it ended with.
fn refusal(status: ExitStatus, message: &str) -> QueryError {
    let sentence =
        message.lines().last().unwrap_or("it said nothing").trim_start_matches("gpuwhy: ").to_string();
    match status.code() {
        Some(2) => QueryError::Usage(sentence),
        Some(3) => QueryError::NoData(sentence),
        _ => QueryError::Failed(sentence),
    }
}
