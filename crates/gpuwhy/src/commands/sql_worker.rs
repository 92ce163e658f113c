//! `gpuwhy sql-worker`: one statement of a user, answered by a process that can be ended. Started by `query`, `dashboard` and `mcp`.

use crate::failure::Failure;
use gpuwhy_store::{Worker, serve_statement};
use std::path::Path;

/// This very program, also where its file was replaced meanwhile.
pub(crate) fn worker() -> Worker {
    Worker { program: "/proc/self/exe".into(), words: vec!["sql-worker".into(), "--".into()] }
}

pub(crate) fn run(file: &Path) -> Result<(), Failure> {
    Ok(serve_statement(file)?)
}
