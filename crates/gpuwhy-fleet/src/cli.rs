//! The command line: what users type.

use clap::{Args, Parser, Subcommand};
use gpuwhy_model::units::{parse_duration, parse_size};
use std::path::PathBuf;
use std::time::Duration;

/// Which rank drags the others, why, and what it costs.
///
/// Every node pushes OTLP to it. It stores what comes, compares ranks with their peers, answers each push with the cohort's
/// threshold, and serves people and assistants.
#[derive(Debug, Parser)]
#[command(
    name = "gpuwhy-fleet",
    version,
    max_term_width = 100,
    after_help = "\
Examples:
  gpuwhy-fleet serve --data DIR --tokens tokens --tls-cert cert.pem --tls-key key.pem
  gpuwhy trace --fleet https://fleet:4317          # on every node
  curl -H \"Authorization: Bearer $TOKEN\" https://fleet:8081/api/v1/tools/list"
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Take in what nodes push, compare ranks, and answer
    Serve(Box<ServeOptions>),
    /// Simulate agents with planted faults, and tell what the server found
    Load(Box<LoadOptions>),
    /// What the server runs for each statement of SQL that somebody asks
    #[command(name = "sql-worker", hide = true)]
    SqlWorker,
    /// Print the version
    Version,
    /// Print completions for a shell
    #[command(after_help = "Example:\n  gpuwhy-fleet completions bash > /etc/bash_completion.d/gpuwhy-fleet")]
    Completions { shell: clap_complete::Shell },
}

#[derive(Debug, Args)]
#[command(after_help = "\
The tokens' file has a line each, TOKEN CLUSTERS SCOPES: clusters by commas or `*` for all,
scopes of push, read, sql and admin. Others must not be able to read it. Ctrl-C ends the server;
what was acknowledged is on disk.

Examples:
  echo \"$(openssl rand -hex 32) training push,read\" > tokens; chmod 600 tokens
  gpuwhy-fleet serve --data fleet --tokens tokens --tls-cert cert.pem --tls-key key.pem
  gpuwhy-fleet serve --data fleet --tokens tokens --insecure-no-tls --otlp-grpc 127.0.0.1:4317 \\
      --otlp-http 127.0.0.1:4318 --api 127.0.0.1:8081
  gpuwhy-fleet serve --data fleet --tokens tokens --tls-cert cert.pem --tls-key key.pem --keep 7d --max-size 500G")]
pub(crate) struct ServeOptions {
    /// The folder of the store and the audit log; made where it is not there
    #[arg(long, value_name = "DIR")]
    pub(crate) data: PathBuf,
    /// Where OTLP comes in by gRPC
    #[arg(long, value_name = "ADDR", default_value = "0.0.0.0:4317")]
    pub(crate) otlp_grpc: String,
    /// Where OTLP comes in by HTTP
    #[arg(long, value_name = "ADDR", default_value = "0.0.0.0:4318")]
    pub(crate) otlp_http: String,
    /// Where people, programs and assistants ask
    #[arg(long, value_name = "ADDR", default_value = "0.0.0.0:8081")]
    pub(crate) api: String,
    /// The certificate, a PEM file
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub(crate) tls_cert: Option<PathBuf>,
    /// Its key, a PEM file
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub(crate) tls_key: Option<PathBuf>,
    /// Serve without TLS: tokens and data can be read on the way
    #[arg(long, conflicts_with = "tls_cert")]
    pub(crate) insecure_no_tls: bool,
    /// Who may do what: TOKEN CLUSTERS SCOPES, one a line
    #[arg(long, value_name = "FILE")]
    pub(crate) tokens: PathBuf,
    /// What a GPU-hour costs; see the guide
    #[arg(long, value_name = "FILE")]
    pub(crate) rates: Option<PathBuf>,
    /// The store's engine
    #[arg(long, value_name = "STORE", default_value = "duckdb")]
    pub(crate) store: String,
    /// Forget what is older
    #[arg(long, value_name = "D", default_value = "30d", value_parser = parse_duration)]
    pub(crate) keep: Duration,
    /// Forget the oldest when the store is larger
    #[arg(long, value_name = "SIZE", default_value = "100G", value_parser = parse_size)]
    pub(crate) max_size: u64,
    /// Memory for pushes that are on their way to the store
    #[arg(long, value_name = "SIZE", default_value = "256M", value_parser = parse_size)]
    pub(crate) push_memory: u64,
    /// Memory for the store
    #[arg(long, value_name = "SIZE", default_value = "2G", value_parser = parse_size)]
    pub(crate) store_memory: u64,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Ranks of the simulated jobs meet at collectives as real ones do; some jobs have a straggler (5%,
20%, 80 ms a step, now and then), some stop. At the end it is told which of them the server named,
after how long, and who was named wrongly; the status is 1 below a precision of 0.97 or a recall
of 0.95. Ctrl-C ends it early, and tells what was found by then.

Examples:
  gpuwhy-fleet load --token tokens
  gpuwhy-fleet load --token tokens --ca cert.pem --otlp-grpc https://fleet:4317 \\
      --api https://fleet:8081
  gpuwhy-fleet load --token tokens --agents 2000 --duration 60s --stragglers 10 --hangs 0
  gpuwhy-fleet load --token tokens --agents 1600 --seed 7 --json")]
pub(crate) struct LoadOptions {
    /// Where the server takes OTLP by gRPC; https:// where it serves with TLS
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:4317")]
    pub(crate) otlp_grpc: String,
    /// Where the server is asked; https:// where it serves with TLS
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:8081")]
    pub(crate) api: String,
    /// A file whose first word is a token that may push and read; the server's tokens will do
    #[arg(long, value_name = "FILE")]
    pub(crate) token: Option<PathBuf>,
    /// Certificates to trust instead of the system's, as PEM: the server's own, or who signed it
    #[arg(long, value_name = "FILE")]
    pub(crate) ca: Option<PathBuf>,
    /// The cluster they say they are of
    #[arg(long, value_name = "NAME", default_value = "load")]
    pub(crate) cluster: String,
    /// How many agents
    #[arg(long, value_name = "N", default_value_t = 64)]
    pub(crate) agents: usize,
    /// How many of them a job has
    #[arg(long, value_name = "N", default_value_t = 8)]
    pub(crate) ranks: usize,
    /// How long; faults begin after a third of it, and after 20 s at the latest
    #[arg(long, value_name = "D", default_value = "60s", value_parser = parse_duration)]
    pub(crate) duration: Duration,
    /// How often each agent pushes
    #[arg(long, value_name = "D", default_value = "1s", value_parser = parse_duration)]
    pub(crate) push: Duration,
    /// Percent of the jobs that have a straggler
    #[arg(long, value_name = "PCT", default_value_t = 50.0)]
    pub(crate) stragglers: f64,
    /// Percent of the jobs in which a rank stops, or calls another count
    #[arg(long, value_name = "PCT", default_value_t = 10.0)]
    pub(crate) hangs: f64,
    /// Clocks of nodes are off by up to so much
    #[arg(long, value_name = "D", default_value = "5s", value_parser = parse_duration)]
    pub(crate) clock_offset: Duration,
    /// Connections that agents share
    #[arg(long, value_name = "N", default_value_t = 32)]
    pub(crate) connections: usize,
    /// Repeat a load
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<u64>,
    /// One JSON document
    #[arg(long)]
    pub(crate) json: bool,
}
