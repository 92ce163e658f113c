//! The node binary: command line and screens; everything else is in the libraries.

mod chosen;
mod cli;
mod commands;
mod explanation;
mod failure;
mod findings;
mod fleet;
mod log;
mod nodes;
mod output;
mod panels;
mod paths;
mod progress;
mod progress_lines;
mod push_news;
mod report;
mod screen;
mod shell;
mod stream;
mod summary;
mod telemetry;

use clap::{CommandFactory, Parser};
use cli::{Cli, Command};
use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

/// A file alone is explained: `gpuwhy run.db` is `gpuwhy explain run.db`.
fn words(given: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut words: Vec<OsString> = given.collect();
    let is_command = |word: &OsString| Cli::command().find_subcommand(word).is_some();
    if words.get(1).is_some_and(|word| Path::new(word).is_file() && !is_command(word)) {
        words.insert(1, "explain".into());
    }
    words
}

fn main() -> ExitCode {
    shell::remember_caller();
    let cli = match Cli::try_parse_from(words(std::env::args_os())) {
        Ok(cli) => cli,
        Err(error) => return failure::usage(&error),
    };
    let result = match cli.command {
        Command::Check(options) => commands::check::run(&options),
        Command::Trace(options) => commands::trace::run(*options),
        Command::Top(options) => commands::top::run(options),
        Command::Query(options) => commands::query::run(&options),
        Command::Explain(options) => commands::explain::run(&options),
        Command::Annotate(options) => commands::annotate::run(&options),
        Command::Compare(options) => commands::compare::run(&options),
        Command::Export(options) => commands::export::run(&options),
        Command::Report(options) => commands::report::run(&options),
        Command::Merge(options) => commands::merge::run(&options),
        Command::Mcp(options) => commands::mcp::run(&options),
        Command::Dashboard(options) => commands::dashboard::run(&options),
        Command::Demo(options) => commands::demo::run(&options),
        Command::Version => commands::version(),
        Command::Completions { shell } => commands::completions(shell),
        Command::Man { folder } => commands::man::run(&folder),
        Command::Docs { page } => commands::docs::run(page),
        Command::SqlWorker { file } => commands::sql_worker::run(&file),
        Command::ExplainWorker { file } => commands::explain_worker::run(&file),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}
