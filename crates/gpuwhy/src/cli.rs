//! The command line: what users type.

#[cfg(test)]
mod examples;
mod top;

pub(crate) use top::TopOptions;

use crate::chosen::{Moment, Who};
use crate::commands::report::ReportOptions;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, Parser, Subcommand, ValueEnum};
use gpuwhy_model::Severity;
use gpuwhy_model::units::{parse_duration, parse_size, size};
use gpuwhy_probes::{Flavour, PROBES, Probe, StackMode, When};
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// Answers "why did the GPU stall?" with evidence.
///
/// gpuwhy attaches eBPF probes to running CUDA workloads with no code change, joins the library calls with what the
/// Linux kernel did to the same threads, and says what each slow call waited for and because of whom.
#[derive(Debug, Parser)]
#[command(
    name = "gpuwhy",
    version,
    max_term_width = 100,
    after_help = "\
Examples:
  gpuwhy check                      # is this host ready?
  gpuwhy demo                       # a stall, injected and explained, with no GPU
  gpuwhy trace --duration 60s       # record every GPU process of the host for a minute
  gpuwhy trace -- python train.py   # start a command and trace it and its children
  gpuwhy top                        # the same as a live screen, nothing recorded
  gpuwhy explain                    # why did the GPU stall? of the trace just made
  gpuwhy run.db                     # the same of a file
  gpuwhy query op_summary           # a table or view of it, or any SELECT"
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Is this host ready: kernel, privileges, probe features, GPU libraries; each failing line carries its fix
    Check(CheckOptions),
    /// Record GPU calls and what held them up into one SQLite file
    Trace(Box<TraceOptions>),
    /// The live screen of every GPU process; nothing is recorded
    Top(TopOptions),
    /// Ask a trace: SQL, or filters without SQL
    Query(QueryOptions),
    /// Why the GPU stalled: causes, culprits, lines of code, costs and fixes
    Explain(ExplainOptions),
    /// Mark a step, an epoch or a request in a running trace
    Annotate(AnnotateOptions),
    /// Two traces side by side, operation by operation: what changed beyond noise
    Compare(CompareOptions),
    /// Write a trace in another tool's format: Perfetto, Chrome, pprof, speedscope, flame graphs, Parquet
    Export(ExportOptions),
    /// The answer on one self-contained HTML page, for a ticket
    Report(ReportOptions),
    /// Traces of several nodes in one file, clocks aligned, nothing lost
    Merge(MergeOptions),
    /// Serve a trace to an AI assistant (MCP), on standard input and output or over HTTP
    Mcp(McpOptions),
    /// Serve a trace to browsers and programs: dashboard, HTTP API, MCP
    Dashboard(DashboardOptions),
    /// A stall, injected and explained, with no GPU: live with real eBPF where allowed, else replayed
    Demo(DemoOptions),
    /// Print the version
    Version,
    /// Print completions for a shell
    #[command(after_help = "Example:\n  gpuwhy completions bash > /etc/bash_completion.d/gpuwhy")]
    Completions { shell: clap_complete::Shell },
    /// Write the man pages, one a command
    #[command(after_help = "Example:\n  gpuwhy man /usr/local/share/man/man1 && man gpuwhy-explain")]
    Man {
        /// The folder they are written to; it is made where it is missing
        #[arg(value_name = "FOLDER")]
        folder: PathBuf,
    },
    /// Print a page of the documentation that is made from the program's own tables
    #[command(hide = true)]
    Docs { page: DocsPage },
    /// Answer one SQL statement about a trace, within limits that the kernel keeps; started by gpuwhy itself
    #[command(hide = true)]
    SqlWorker { file: PathBuf },
    /// Explain a trace that is being made, in a process without privileges; started by gpuwhy itself
    #[command(hide = true)]
    ExplainWorker { file: PathBuf },
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum DocsPage {
    Schema,
    Probes,
    Rules,
    Formats,
    Metrics,
    Api,
    Causes,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Exit status: 0 if tracing can work, 1 if not.

Examples:
  gpuwhy check
  gpuwhy check --json | jq '.checks[] | select(.ok == false)'
  gpuwhy check --selftest       # attach every probe to the built-in simulated GPU")]
pub(crate) struct CheckOptions {
    /// One JSON document on stdout
    #[arg(long)]
    pub(crate) json: bool,
    /// Attach every probe to the built-in simulated GPU; say which fired and what each trap costs here
    #[arg(long)]
    pub(crate) selftest: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Without --pid, --cgroup or a command, every process that makes GPU calls is traced. Libraries
and processes that appear later are picked up. Ctrl-C ends the trace; the summary and the
file's name are printed. A file that already holds a trace gets another session added.

Examples:
  gpuwhy trace --duration 60s
  gpuwhy trace --pid 4242 --out run.db
  gpuwhy trace --pid train.py                     # all that run it now
  gpuwhy trace --out run.db -- torchrun --nproc-per-node 8 train.py
  gpuwhy trace --budget 0.5% --stacks off
  gpuwhy trace --cgroup /sys/fs/cgroup/kubepods.slice/pod1 --max-size 500M
  gpuwhy trace --prometheus 127.0.0.1:9464
  OTEL_EXPORTER_OTLP_HEADERS=authorization=... gpuwhy trace --otlp https://collector:4318
  GPUWHY_FLEET_TOKEN_FILE=/etc/gpuwhy/token GPUWHY_CLUSTER=a gpuwhy trace --fleet https://fleet:4317
  gpuwhy trace --annotate -- python train.py      # steps it marks show in findings
  gpuwhy trace --servers                          # with the latencies of vLLM, SGLang, TGI and Triton
  gpuwhy trace --json | jq -c 'select(.type == \"call\" and .kept == \"slow\")'")]
pub(crate) struct TraceOptions {
    /// The trace file [default: /var/lib/gpuwhy/trace.db for root, else in $XDG_DATA_HOME/gpuwhy]
    #[arg(long, short, visible_alias = "db", env = "GPUWHY_DB", value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
    /// End after this long: 90s, 5m, 2h; a command that is still running then runs on untraced
    #[arg(long, value_name = "D", allow_hyphen_values = true, value_parser = parse_duration)]
    pub(crate) duration: Option<Duration>,
    /// Trace only this process, by its number or its name; may be given several times
    #[arg(long = "pid", value_name = "P", value_parser = Who::parse, allow_negative_numbers = true)]
    pub(crate) pids: Vec<Who>,
    /// Trace only the processes of this cgroup folder and those below it
    #[arg(long, value_name = "PATH")]
    pub(crate) cgroup: Option<PathBuf>,
    #[arg(long, value_name = "LIST", value_delimiter = ',', help = probes_help())]
    pub(crate) probes: Option<Vec<String>>,
    /// User stacks: for slow, failed and rare calls (auto), for all kept calls (on), or none (off)
    #[arg(long, value_enum, default_value_t = Stacks::Auto)]
    pub(crate) stacks: Stacks,
    /// Keep every call in full, not only slow, failed, rare and sampled ones; costs more
    #[arg(long)]
    pub(crate) keep_all: bool,
    /// What being watched may cost a thread at most: calls that are too frequent are watched in slices of time; 100% for no limit
    #[arg(long, env = "GPUWHY_BUDGET", value_name = "PERCENT", allow_hyphen_values = true, default_value = "1%", value_parser = parse_budget)]
    pub(crate) budget: f64,
    /// The oldest data is dropped when the file passes this size: 500M, 10G
    #[arg(long, value_name = "SIZE", allow_hyphen_values = true, default_value = "10G", value_parser = parse_max_size)]
    pub(crate) max_size: u64,
    /// Let this group read the trace and the folders made for it, which are their owner's alone else
    #[arg(long, value_name = "NAME", value_parser = parse_group)]
    pub(crate) group: Option<u32>,
    /// Store command lines as they are; else values of keys, tokens, secrets, passwords and credentials on them become ***
    #[arg(long)]
    pub(crate) no_mask: bool,
    /// One JSON object a line on stdout: calls, collectives, memory, GPU samples, sums, losses, the summary
    #[arg(long)]
    pub(crate) json: bool,
    /// Answer Prometheus on this address: http://ADDR/metrics, as 127.0.0.1:9464
    #[arg(long, value_name = "ADDR")]
    pub(crate) prometheus: Option<String>,
    /// Push metrics, findings and slow calls to this OTLP server: http://HOST:4317 (gRPC), http(s)://HOST:4318 (HTTP)
    #[arg(long, value_name = "URL")]
    pub(crate) otlp: Option<String>,
    /// Push this host's ranks to a fleet every second and hear how they stand among their peers: https://HOST:4317 (gRPC),
    /// https://HOST:4318 (HTTP); the token is in GPUWHY_FLEET_TOKEN or in the file that GPUWHY_FLEET_TOKEN_FILE names, the
    /// cluster in GPUWHY_CLUSTER
    #[arg(long, value_name = "URL")]
    pub(crate) fleet: Option<String>,
    /// Where what waits for the fleet is kept while it is away [default: /var/lib/gpuwhy/fleet for root, else in
    /// $XDG_DATA_HOME/gpuwhy]
    #[arg(long, value_name = "DIR", requires = "fleet")]
    pub(crate) fleet_spool: Option<PathBuf>,
    /// Record asynchronous events of RDMA devices too, their types only (libibverbs)
    #[arg(long)]
    pub(crate) rdma_verbs: bool,
    /// Take marks of steps, epochs and requests at a Unix socket: `gpuwhy annotate` and the Python module send them
    /// [default: /run/gpuwhy/annotate.sock for root, else in $XDG_RUNTIME_DIR/gpuwhy]
    #[arg(long, value_name = "PATH", num_args = 0..=1, require_equals = true)]
    pub(crate) annotate: Option<Option<PathBuf>>,
    /// Ask inference servers for their metrics once a second: those that run on this host (vLLM, SGLang, TGI, Triton), or
    /// those at these addresses of this host, comma-separated, as http://127.0.0.1:8000
    #[arg(long, value_name = "URL,...", num_args = 0..=1, require_equals = true, value_delimiter = ',')]
    pub(crate) servers: Option<Vec<String>>,
    /// Count ioctls on this device file as the GPU driver's; for drivers gpuwhy does not know
    #[arg(long, value_name = "DEVICE", hide_short_help = true)]
    pub(crate) driver_device: Vec<PathBuf>,
    /// The kernel's function that serves such a device: probed by itself where the kernel has kprobes
    #[arg(long, value_name = "FUNCTION", hide_short_help = true, requires = "driver_device")]
    pub(crate) driver_function: Vec<String>,
    /// Use this kind of probe instead of the best the kernel has
    #[arg(long, value_enum, hide_short_help = true)]
    pub(crate) attach: Option<AttachKind>,
    /// At the end the tables of all topics too: operations, kernels, memory, collectives, GPUs
    #[arg(long, short, conflicts_with_all = ["json", "quiet"])]
    pub(crate) verbose: bool,
    /// No lines of progress, and at the end the file and one sentence
    #[arg(long, short, conflicts_with = "json")]
    pub(crate) quiet: bool,
    /// End with 0 where the trace is whole, whatever status the command ended with
    #[arg(long)]
    pub(crate) no_status: bool,
    /// A command to start and trace, with its children; gpuwhy ends with its status
    #[arg(last = true, value_name = "CMD", conflicts_with_all = ["pids", "cgroup"])]
    pub(crate) command: Vec<OsString>,
}

/// A share of one.
fn parse_budget(text: &str) -> Result<f64, String> {
    let wrong = || format!("'{text}' is not a share of the time; give a percentage such as 1% or 0.5%");
    let percent: f64 = text.strip_suffix('%').unwrap_or(text).trim().parse().map_err(|_| wrong())?;
    match percent > 0.0 && percent <= 100.0 {
        true => Ok(percent / 100.0),
        false => Err(wrong()),
    }
}

/// A smaller limit could not be kept.
fn parse_max_size(text: &str) -> Result<u64, String> {
    let max_size = parse_size(text)?;
    match max_size >= gpuwhy_store::MIN_SIZE {
        true => Ok(max_size),
        false => Err(format!(
            "'{text}' is less than a trace takes; give at least {}",
            size(gpuwhy_store::MIN_SIZE)
        )),
    }
}

/// In percent.
fn parse_regression(text: &str) -> Result<f64, String> {
    let wrong = || format!("'{text}' is no share of a step; give a percentage such as 5%");
    let percent: f64 = text.strip_suffix('%').unwrap_or(text).trim().parse().map_err(|_| wrong())?;
    if percent.is_finite() && percent >= 0.0 { Ok(percent) } else { Err(wrong()) }
}

/// A group's number, by its name or itself.
pub(crate) fn parse_group(text: &str) -> Result<u32, String> {
    if let Ok(number) = text.parse() {
        return Ok(number);
    }
    match nix::unistd::Group::from_name(text) {
        Ok(Some(group)) => Ok(group.gid.as_raw()),
        _ => Err(format!("there is no group '{text}' on this host; `getent group` lists them")),
    }
}

pub(crate) fn parse_pid(text: &str) -> Result<u32, String> {
    text.parse().map_err(|_| format!("'{text}' is not a process number; `ps` lists them"))
}

fn probes_help() -> String {
    let names = |fits: fn(When) -> bool| {
        PROBES.iter().filter(|probe| fits(probe.when)).map(|probe| probe.name).collect::<Vec<_>>().join(", ")
    };
    let brings = |probe: &&Probe| Some(format!("{} brings {}", probe.name, probe.needs?));
    let bringing: Vec<String> = PROBES.iter().filter_map(brings).collect();
    format!(
        "Only these probes, comma-separated: {} (always on: {}; only when asked for: {}; {})",
        names(|when| when != When::Always),
        names(|when| when == When::Always),
        names(|when| when == When::Asked),
        bringing.join(", "),
    )
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum Stacks {
    Auto,
    On,
    Off,
}

impl From<Stacks> for StackMode {
    fn from(stacks: Stacks) -> Self {
        match stacks {
            Stacks::Auto => StackMode::Auto,
            Stacks::On => StackMode::On,
            Stacks::Off => StackMode::Off,
        }
    }
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum AttachKind {
    Session,
    Multi,
    Single,
}

impl From<AttachKind> for Flavour {
    fn from(kind: AttachKind) -> Self {
        match kind {
            AttachKind::Session => Flavour::Session,
            AttachKind::Multi => Flavour::Multi,
            AttachKind::Single => Flavour::Single,
        }
    }
}

#[derive(Debug, Args)]
#[command(after_help = "\
Findings are sorted by how much of a process's time they cost. Shares are of the time beyond the usual and sum to 100,
what is unknown included. What is marked `as built` follows from how the program is built, whatever it takes, and is no
fault; low is a small loss; above low, something takes time from the program.
Exit status 3 if the trace has no calls to explain.

Examples:
  gpuwhy explain run.db
  gpuwhy explain run.db --since 5m --pid 4242
  gpuwhy explain run.db --from 03:00 --until 03:10 --pid train.py
  gpuwhy explain --op cudaStreamSynchronize --tail p99.9
  gpuwhy explain run.db --verbose
  gpuwhy explain run.db --quiet
  gpuwhy explain run.db --top 1 --min-severity high
  gpuwhy explain run.db --per-process
  gpuwhy explain run.db --json | jq '.findings[0] | {title, causes, where}'
  gpuwhy explain --nodes node-a:7777,node-b:7777 --token-file tokens --ca ca.pem --since 5m")]
pub(crate) struct ExplainOptions {
    /// The trace file [default: as of --db]
    #[arg(value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
    /// The trace file
    #[arg(long, env = "GPUWHY_DB", value_name = "FILE")]
    pub(crate) db: Option<PathBuf>,
    /// Only the last so long before the newest event in the file: 90s, 5m, 2h, 1d
    #[arg(long, value_name = "D", allow_hyphen_values = true, value_parser = parse_duration, conflicts_with_all = ["from", "to"])]
    pub(crate) since: Option<Duration>,
    /// Only from this time on: 03:00 (UTC, of the trace's last day) or 2026-11-15T03:00:00Z
    #[arg(long, value_name = "TIME", value_parser = Moment::parse)]
    pub(crate) from: Option<Moment>,
    /// Only before this time
    #[arg(long, visible_alias = "until", value_name = "TIME", value_parser = Moment::parse)]
    pub(crate) to: Option<Moment>,
    /// Only findings of this process: its number, or the name of it, its program or its script
    #[arg(long, value_name = "P", value_parser = Who::parse, allow_negative_numbers = true)]
    pub(crate) pid: Option<Who>,
    /// Only findings of this operation, such as cuLaunchKernel; cudaLaunchKernel finds it, too
    #[arg(long, value_name = "OP")]
    pub(crate) op: Option<String>,
    /// Findings under the process they are of
    #[arg(long)]
    pub(crate) per_process: bool,
    /// What the slowest calls of each operation spent their time on
    #[arg(long, value_enum, value_name = "Q")]
    pub(crate) tail: Option<Quantile>,
    /// All findings with their evidence, statements and costs, and all that was not seen
    #[arg(long, short, conflicts_with = "quiet")]
    pub(crate) verbose: bool,
    /// One sentence: what bounds the program
    #[arg(long, short, conflicts_with_all = ["json", "tail"])]
    pub(crate) quiet: bool,
    /// At most so many findings [default: 3, with --verbose all]
    #[arg(long, value_name = "N")]
    pub(crate) top: Option<usize>,
    /// Only findings at least this bad
    #[arg(long, value_name = "S", value_parser = severities(), default_value = Severity::Low.name())]
    pub(crate) min_severity: Severity,
    /// Colours: where stdout is a terminal and NO_COLOR is not set (auto), always or never
    #[arg(long, value_enum, value_name = "WHEN", default_value_t = Colour::Auto)]
    pub(crate) color: Colour,
    /// One JSON document on stdout
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) fan: NodesOptions,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Colour {
    Auto,
    Always,
    Never,
}

/// By its name, as findings have it.
fn severities() -> impl TypedValueParser<Value = Severity> {
    // Names are checked before they are mapped.
    let named = |name: String| {
        Severity::ALL.into_iter().find(|severity| severity.name() == name).unwrap_or(Severity::Low)
    };
    PossibleValuesParser::new(Severity::ALL.map(Severity::name)).map(named)
}

#[derive(Debug, Args)]
#[command(after_help = "\
The trace must have been started with --annotate. The first label says what is marked. Without
--pid the mark is about all your processes; root's is about everybody's. Exit status 1 if no trace
listens, or it does not take the mark.

Examples:
  gpuwhy annotate --label epoch=3
  gpuwhy annotate --label step=140 --pid 4242 --begin
  gpuwhy annotate --label step=140 --pid 4242 --end
  gpuwhy annotate --label phase=warmup --label lr=0.1 --next")]
pub(crate) struct AnnotateOptions {
    /// A name and a value, such as step=140; may be given several times
    #[arg(long = "label", value_name = "NAME=VALUE", required = true, value_parser = gpuwhy_annotations::label)]
    pub(crate) labels: Vec<(String, String)>,
    /// Only about this process, which must be yours unless you are root
    #[arg(long, value_name = "P", value_parser = parse_pid, allow_negative_numbers = true)]
    pub(crate) pid: Option<u32>,
    /// It begins now
    #[arg(long, group = "when")]
    pub(crate) begin: bool,
    /// What began with the same first label ends now
    #[arg(long, group = "when")]
    pub(crate) end: bool,
    /// It begins now, and what is open under the same name ends
    #[arg(long, group = "when")]
    pub(crate) next: bool,
    /// It is a moment, which is now; the default
    #[arg(long, group = "when")]
    pub(crate) at: bool,
    /// The socket [default: $GPUWHY_ANNOTATE, else where `trace --annotate` listens]
    #[arg(long, value_name = "PATH")]
    pub(crate) socket: Option<PathBuf>,
}

#[derive(Debug, Args)]
#[command(after_help = "\
A difference is beyond noise where the intervals in which the two quantiles lie with 99.9% do not touch.

Examples:
  gpuwhy compare before.db after.db
  gpuwhy compare run.db --since 5m                          # the last five minutes against what was before
  gpuwhy compare run.db --split 2026-11-15T03:00:00Z
  gpuwhy compare before.db after.db --max-regression 5%     # for CI: status 1 where a step is slower beyond noise
  gpuwhy compare before.db after.db --json | jq '.message'")]
pub(crate) struct CompareOptions {
    /// The first trace
    #[arg(value_name = "A")]
    pub(crate) a: PathBuf,
    /// The second one; without it two times of the first are compared
    #[arg(value_name = "B")]
    pub(crate) b: Option<PathBuf>,
    /// Compare the last so long of one trace with what was before: 90s, 5m, 2h, 1d
    #[arg(long, value_name = "D", allow_hyphen_values = true, value_parser = parse_duration, conflicts_with_all = ["b", "split"])]
    pub(crate) since: Option<Duration>,
    /// Compare what was before this time with what was after: 03:00 (UTC) or 2026-11-15T03:00:00Z
    #[arg(long, value_name = "TIME", value_parser = Moment::parse, conflicts_with = "b")]
    pub(crate) split: Option<Moment>,
    /// Fail with status 1 where a step is slower by more than this share, beyond noise: 5%
    #[arg(long, value_name = "PERCENT", allow_hyphen_values = true, value_parser = parse_regression)]
    pub(crate) max_regression: Option<f64>,
    /// One JSON document on stdout
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Quantile {
    P50,
    P95,
    P99,
    #[value(name = "p99.9")]
    P999,
}

impl Quantile {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Quantile::P50 => "p50",
            Quantile::P95 => "p95",
            Quantile::P99 => "p99",
            Quantile::P999 => "p99.9",
        }
    }
}

#[derive(Debug, Args)]
#[command(after_help = "\
SQL is read-only: the database engine refuses anything but SELECT. Without SQL the kept calls are listed.
The tables describe themselves: SELECT * FROM schema_doc.
Exit status 3 if the trace has no such data.

Examples:
  gpuwhy query \"SELECT * FROM op_summary\"
  gpuwhy query run.db \"SELECT op, cause, by_comm, sum(ns)/1e6 AS ms FROM blame GROUP BY 1,2,3 ORDER BY 4 DESC\"
  gpuwhy query run.db --op cuLaunchKernel --since 60s --limit 20
  gpuwhy query --pid 4242 --format csv > calls.csv
  gpuwhy query --nodes node-a:7777,node-b:7777 --token-file tokens \"SELECT node, count(*) FROM events GROUP BY 1\"")]
pub(crate) struct QueryOptions {
    /// A trace file, SQL, or both
    #[arg(value_name = "FILE|SQL", num_args = 0..=2)]
    pub(crate) words: Vec<String>,
    /// The trace file
    #[arg(long, env = "GPUWHY_DB", value_name = "FILE")]
    pub(crate) db: Option<PathBuf>,
    /// Only calls of this operation
    #[arg(long, value_name = "OP")]
    pub(crate) op: Option<String>,
    /// Only this process: its number, or the name of it, its program or its script
    #[arg(long, value_name = "P", value_parser = Who::parse, allow_negative_numbers = true)]
    pub(crate) pid: Option<Who>,
    /// Only the last so long before the newest event in the file: 90s, 5m, 2h, 1d
    #[arg(long, value_name = "D", allow_hyphen_values = true, value_parser = parse_duration)]
    pub(crate) since: Option<Duration>,
    /// At most so many rows
    #[arg(long, value_name = "N", default_value_t = 1000, allow_negative_numbers = true)]
    pub(crate) limit: usize,
    /// Stop a statement that runs longer: 90s, 5m
    #[arg(long, value_name = "D", allow_hyphen_values = true, default_value = "30s", value_parser = parse_duration)]
    pub(crate) timeout: Duration,
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub(crate) format: Format,
    /// The same as --format json
    #[arg(long, conflicts_with = "format")]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) fan: NodesOptions,
}

/// Other nodes instead of a file.
#[derive(Debug, Args)]
#[command(next_help_heading = "Other nodes")]
pub(crate) struct NodesOptions {
    /// Ask the `gpuwhy dashboard` of these nodes instead of a file, comma-separated: HOST:PORT or https://HOST:PORT;
    /// http:// on this host only, as the end of an ssh tunnel. Their traces are fetched and merged; a node that fails is
    /// told and left out
    #[arg(long, value_name = "H1,H2", value_delimiter = ',')]
    pub(crate) nodes: Vec<String>,
    /// What the nodes are shown: a token, or a line `HOST:PORT TOKEN` for each, in a file that others cannot read;
    /// without it GPUWHY_TOKEN
    #[arg(long, value_name = "FILE", requires = "nodes")]
    pub(crate) token_file: Option<PathBuf>,
    /// Certificates to trust instead of the system's, a PEM file
    #[arg(long, value_name = "FILE", requires = "nodes")]
    pub(crate) ca: Option<PathBuf>,
    /// The largest trace that is fetched from a node: 500M, 10G
    #[arg(long, value_name = "SIZE", default_value = "1G", value_parser = parse_size, requires = "nodes")]
    pub(crate) max_transfer: u64,
}

#[derive(Debug, Args)]
#[command(after_help = "\
The file may be one that `gpuwhy trace` is writing, or is yet to write. Nothing is ever changed in it.
Over HTTP the server is at /mcp, and clients send a token as `Authorization: Bearer TOKEN`: the one that is printed, or that of
--token-file or GPUWHY_TOKEN. Off loopback it needs TLS too, and a token of yours.

Examples:
  gpuwhy mcp run.db                        # the command to put into an assistant's list of MCP servers
  gpuwhy mcp run.db --http 127.0.0.1:7778
  gpuwhy mcp --http 0.0.0.0:7778 --tls-cert cert.pem --tls-key key.pem --token-file tokens")]
pub(crate) struct McpOptions {
    /// The trace file [default: as of --db]
    #[arg(value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
    /// The trace file
    #[arg(long, env = "GPUWHY_DB", value_name = "FILE")]
    pub(crate) db: Option<PathBuf>,
    /// Listen for streamable HTTP on this address instead of using standard input and output
    #[arg(long, value_name = "ADDR")]
    pub(crate) http: Option<String>,
    #[command(flatten)]
    pub(crate) access: AccessOptions,
}

#[derive(Debug, Args)]
#[command(after_help = "\
The file may be one that `gpuwhy trace` is writing. The page is at /, the HTTP API at /api/v1 (openapi.json describes it), MCP at /mcp.
The link that is printed has a token in it, made for this run: browsers log in with it, programs send it as
`Authorization: Bearer TOKEN`. Off loopback it needs TLS, and a token of yours.

Examples:
  gpuwhy dashboard run.db
  gpuwhy dashboard run.db --port 8080 --browse       # and open it in a browser
  gpuwhy dashboard run.db --listen 127.0.0.1:0       # any free port
  ssh -L 7777:127.0.0.1:7777 node gpuwhy dashboard   # a remote node, through ssh
  gpuwhy dashboard --listen 0.0.0.0:7777 --tls-cert cert.pem --tls-key key.pem --token-file tokens")]
pub(crate) struct DashboardOptions {
    /// The trace file [default: as of --db]
    #[arg(value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
    /// The trace file
    #[arg(long, env = "GPUWHY_DB", value_name = "FILE")]
    pub(crate) db: Option<PathBuf>,
    /// The address to listen on
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:7777")]
    pub(crate) listen: String,
    /// Listen on this port of the loopback; 0 for any free one
    #[arg(long, value_name = "PORT", conflicts_with = "listen")]
    pub(crate) port: Option<u16>,
    /// Open the page in a browser: that of $BROWSER, else the desktop's
    #[arg(long)]
    pub(crate) browse: bool,
    #[command(flatten)]
    pub(crate) access: AccessOptions,
}

/// Who may come in, and how.
#[derive(Debug, Args)]
pub(crate) struct AccessOptions {
    /// The TLS certificate and its chain, a PEM file
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub(crate) tls_cert: Option<PathBuf>,
    /// The certificate's private key, a PEM file
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub(crate) tls_key: Option<PathBuf>,
    /// Tokens that may ask, one a line, in a file that others cannot read; GPUWHY_TOKEN has another
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,
    /// Answer to this host name, too, as that of a proxy in front; may be given several times
    #[arg(long, value_name = "NAME")]
    pub(crate) allow_host: Vec<String>,
    /// On loopback ask nobody for a token: every user of this host can read the trace then
    #[arg(long, conflicts_with = "token_file")]
    pub(crate) open: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    Table,
    Json,
    Csv,
}

#[derive(Debug, Args)]
#[command(after_help = "\
What is written appears under its name only when it is whole. Exit status 3 if the trace has no such data.

Examples:
  gpuwhy export run.db -o run.pftrace       # then open it at ui.perfetto.dev
  gpuwhy export run.db -o run.pb.gz && go tool pprof -top run.pb.gz
  gpuwhy export run.db --format chrome -o run.json --since 30s
  gpuwhy export run.db --format folded -o - | flamegraph.pl --countname ns > run.svg
  gpuwhy export run.db -o run/ && duckdb -c \"SELECT * FROM 'run/op_summary.parquet'\"
  gpuwhy export --nodes node-a:7777,node-b:7777 --token-file tokens --format perfetto -o job.pftrace")]
pub(crate) struct ExportOptions {
    /// The trace file
    #[arg(value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
    /// The trace file
    #[arg(long, env = "GPUWHY_DB", value_name = "FILE")]
    pub(crate) db: Option<PathBuf>,
    /// What to write; without it the name of OUT says so, as run.pftrace or run.folded
    #[arg(long, short, value_parser = formats())]
    pub(crate) format: Option<String>,
    /// Where to: a file, a folder for Parquet, or - for stdout
    #[arg(long, short, value_name = "OUT")]
    pub(crate) output: PathBuf,
    /// Let this group read what is written, which is its owner's alone else
    #[arg(long, value_name = "NAME", value_parser = parse_group)]
    pub(crate) group: Option<u32>,
    /// Replace what is there
    #[arg(long)]
    pub(crate) force: bool,
    /// Only this process: its number, or the name of it, its program or its script
    #[arg(long, value_name = "P", value_parser = Who::parse, allow_negative_numbers = true)]
    pub(crate) pid: Option<Who>,
    /// Only the last so long before the newest event in the file: 90s, 5m, 2h, 1d
    #[arg(long, value_name = "D", allow_hyphen_values = true, value_parser = parse_duration, conflicts_with = "from")]
    pub(crate) since: Option<Duration>,
    /// Only what began from this time on: 03:00 (UTC, of the trace's last day) or 2026-11-15T03:00:00Z
    #[arg(long, value_name = "TIME", value_parser = Moment::parse)]
    pub(crate) from: Option<Moment>,
    /// Only what began before this time
    #[arg(long, visible_alias = "until", value_name = "TIME", value_parser = Moment::parse)]
    pub(crate) to: Option<Moment>,
    #[command(flatten)]
    pub(crate) fan: NodesOptions,
}

/// The formats, as their table has them.
fn formats() -> PossibleValuesParser {
    let values = gpuwhy_export::FORMATS.iter();
    PossibleValuesParser::new(values.map(|format| PossibleValue::new(format.name).help(format.about)))
}

#[derive(Debug, Args)]
#[command(after_help = "\
Clocks of nodes that took part in the same collectives are aligned by them; others stay as they are, and it is said.
Processes of two nodes that have the same number get numbers that differ by a multiple of 10,000,000.
A merged file can be merged again. Traces of Ingero cannot be merged.

Examples:
  gpuwhy merge node-0.db node-1.db node-2.db -o job.db && gpuwhy explain job.db
  gpuwhy query job.db \"SELECT * FROM merged\"
  gpuwhy merge --nodes node-a:7777,node-b:7777 --token-file tokens -o job.db       # to ask them more than once")]
pub(crate) struct MergeOptions {
    /// The trace files
    #[arg(value_name = "FILE", required_unless_present = "nodes", conflicts_with = "nodes")]
    pub(crate) files: Vec<PathBuf>,
    /// The file to make
    #[arg(long, short, value_name = "OUT")]
    pub(crate) output: PathBuf,
    /// Let this group read the merged file, which is its owner's alone else
    #[arg(long, value_name = "NAME", value_parser = parse_group)]
    pub(crate) group: Option<u32>,
    /// Replace what is there
    #[arg(long)]
    pub(crate) force: bool,
    /// Leave the clocks as they are
    #[arg(long)]
    pub(crate) keep_clocks: bool,
    /// Fetch only the last so long before the newest event of all nodes, and half a minute before: 90s, 5m, 2h
    #[arg(long, value_name = "D", value_parser = parse_duration, requires = "nodes")]
    pub(crate) since: Option<Duration>,
    /// One JSON document on stdout
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) fan: NodesOptions,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  gpuwhy demo
  gpuwhy demo tour                      # collectives, graphs, kernels, memory, GPU counters
  gpuwhy demo --list
  gpuwhy demo cpu-hog --out demo.db && gpuwhy query demo.db \"SELECT * FROM op_summary\"")]
pub(crate) struct DemoOptions {
    /// Which scenario; the first one of --list when not given
    pub(crate) scenario: Option<String>,
    /// The scenarios there are
    #[arg(long)]
    pub(crate) list: bool,
    /// Keep the trace in this file
    #[arg(long, short, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
    /// Replay the recording instead of tracing live
    #[arg(long)]
    pub(crate) replay: bool,
    /// One JSON document on stdout
    #[arg(long)]
    pub(crate) json: bool,
    /// Write what was traced live as a recording, for the program to embed
    #[arg(long, value_name = "FILE", hide = true)]
    pub(crate) record: Option<PathBuf>,
}
