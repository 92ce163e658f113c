//! `gpuwhy man`: the man pages, made from the command line itself.

use crate::cli::Cli;
use crate::failure::Failure;
use crate::output::unwritable;
use clap::{Command, CommandFactory};
use clap_mangen::Man;
use std::io::Write;
use std::path::Path;

pub(crate) fn run(folder: &Path) -> Result<(), Failure> {
    std::fs::create_dir_all(folder).map_err(|error| unwritable(folder, &error))?;
    let mut program = Cli::command();
    program.build();
    let mut written = 0;
    for (name, command) in pages(&program) {
        let file = folder.join(format!("{name}.1"));
        let mut page = Vec::new();
        Man::new(command).render(&mut page)?;
        std::fs::write(&file, page).map_err(|error| unwritable(&file, &error))?;
        written += 1;
    }
    Ok(writeln!(std::io::stdout(), "{written} pages in {}", folder.display())?)
}

/// The program, and each of its commands that people are to know of.
fn pages(program: &Command) -> Vec<(String, Command)> {
    let of_commands = program
        .get_subcommands()
        .filter(|command| !command.is_hide_set() && command.get_name() != "help")
        .map(|command| (format!("gpuwhy-{}", command.get_name()), command.clone()));
    std::iter::once(("gpuwhy".to_string(), program.clone())).chain(of_commands).collect()
}
