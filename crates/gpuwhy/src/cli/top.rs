//! `gpuwhy top`.

use super::parse_budget;
use crate::chosen::Who;
use clap::Args;
use gpuwhy_model::units::parse_duration;
use std::path::PathBuf;
use std::time::Duration;

#[derive(Debug, Args)]
#[command(after_help = "\
Needs the privileges of `gpuwhy trace`. Nothing is kept: what it found goes with it.

Examples:
  gpuwhy top                                  # q ends it, ? explains what is shown
  gpuwhy top --pid train.py
  gpuwhy top --duration 30s | tee top.txt     # lines where there is no terminal
  gpuwhy top --json | jq -c 'select(.type == \"finding\") | .title'")]
pub(crate) struct TopOptions {
    /// End after this long: 90s, 5m, 2h
    #[arg(long, value_name = "D", allow_hyphen_values = true, value_parser = parse_duration)]
    pub(crate) duration: Option<Duration>,
    /// Only this process, by its number or its name; may be given several times
    #[arg(long = "pid", value_name = "P", value_parser = Who::parse, allow_negative_numbers = true)]
    pub(crate) pids: Vec<Who>,
    /// Only the processes of this cgroup folder and those below it
    #[arg(long, value_name = "PATH")]
    pub(crate) cgroup: Option<PathBuf>,
    /// What being watched may cost a thread at most
    #[arg(long, env = "GPUWHY_BUDGET", value_name = "PERCENT", allow_hyphen_values = true, default_value = "1%", value_parser = parse_budget)]
    pub(crate) budget: f64,
    /// Where there is no terminal: lines every so long
    #[arg(long, value_name = "D", default_value = "5s", value_parser = parse_duration)]
    pub(crate) interval: Duration,
    /// One JSON object a line on stdout, as of `trace --json`
    #[arg(long)]
    pub(crate) json: bool,
}
