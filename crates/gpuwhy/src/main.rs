//! The node binary: command line and screens; everything else is in the libraries.

mod cli;
mod commands;
mod explanation;
mod failure;
mod findings;
mod fleet;
mod nodes;
mod output;
mod panels;
mod paths;
mod progress;
mod screen;
mod stream;
mod summary;
mod telemetry;
mod told;

use clap::Parser;
use cli::{Cli, Command};
use std::process::ExitCode;

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return failure::usage(&error),
    };
    let result = match cli.command {
        Command::Check(options) => commands::check::run(&options),
        Command::Trace(options) => commands::trace::run(*options),
        Command::Query(options) => commands::query::run(&options),
        Command::Explain(options) => commands::explain::run(&options),
        Command::Annotate(options) => commands::annotate::run(&options),
        Command::Compare(options) => commands::compare::run(&options),
        Command::Export(options) => commands::export::run(&options),
        Command::Merge(options) => commands::merge::run(&options),
        Command::Mcp(options) => commands::mcp::run(&options),
        Command::Dashboard(options) => commands::dashboard::run(&options),
        Command::Demo(options) => commands::demo::run(&options),
        Command::Version => commands::version(),
        Command::Completions { shell } => commands::completions(shell),
        Command::Docs { page } => commands::docs::run(page),
        Command::SqlWorker { file } => commands::sql_worker::run(&file),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}
