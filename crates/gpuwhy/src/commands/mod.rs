//! The commands, one file each.

pub(crate) mod annotate;
pub(crate) mod check;
pub(crate) mod compare;
pub(crate) mod dashboard;
pub(crate) mod demo;
pub(crate) mod docs;
pub(crate) mod explain;
pub(crate) mod explain_worker;
pub(crate) mod export;
mod host;
pub(crate) mod man;
pub(crate) mod mcp;
pub(crate) mod merge;
pub(crate) mod query;
pub(crate) mod report;
mod selftest;
pub(crate) mod sql_worker;
pub(crate) mod top;
pub(crate) mod trace;

use crate::cli::Cli;
use crate::failure::Failure;
use clap::CommandFactory;
use std::io::Write;

pub(crate) fn version() -> Result<(), Failure> {
    Ok(writeln!(std::io::stdout(), "gpuwhy {}", env!("CARGO_PKG_VERSION"))?)
}

pub(crate) fn completions(shell: clap_complete::Shell) -> Result<(), Failure> {
    // Into memory first: the generator panics where its output cannot be written.
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "gpuwhy", &mut script);
    Ok(std::io::stdout().write_all(&script)?)
}
