//! The commands, one file each.

pub(crate) mod check;
pub(crate) mod demo;
pub(crate) mod docs;
pub(crate) mod query;
pub(crate) mod trace;

use crate::cli::Cli;
use crate::failure::Failure;
use clap::CommandFactory;

pub(crate) fn version() -> Result<(), Failure> {
    println!("gpuwhy {}", env!("CARGO_PKG_VERSION"));
    Ok(())
}

pub(crate) fn completions(shell: clap_complete::Shell) -> Result<(), Failure> {
    clap_complete::generate(shell, &mut Cli::command(), "gpuwhy", &mut std::io::stdout());
    Ok(())
}
