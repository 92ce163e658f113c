//! The cluster binary: the command line only; everything else is in the libraries.

mod cli;
mod failure;
mod load;
mod serve;

use clap::{CommandFactory, Parser};
use cli::{Cli, Command};
use failure::Failure;
use std::io::Write;
use std::process::ExitCode;

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return failure::usage(&error),
    };
    let result = match cli.command {
        Command::SqlWorker => return gpuwhy_fleet_core::sql_worker(),
        Command::Serve(options) => serve::run(&options),
        Command::Load(options) => load::run(&options),
        Command::Version => print_out(&format!("gpuwhy-fleet {}\n", env!("CARGO_PKG_VERSION"))),
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "gpuwhy-fleet", &mut script);
            print_out(&String::from_utf8_lossy(&script))
        }
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}

/// A reader that went away is nobody's fault.
fn print_out(text: &str) -> Result<(), Failure> {
    let _ = std::io::stdout().write_all(text.as_bytes());
    Ok(())
}
