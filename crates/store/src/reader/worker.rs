//! Statements of users in a process of their own. The engine looks at its deadline between instructions, and one instruction may
//! take minutes and gigabytes (`instr`, `LIKE`, a row of large values): only the kernel ends and limits that for certain.

mod serve;
mod wire;

pub use serve::serve_statement;

use super::sql::{Answer, Limits};
use super::stop::Stop;
use crate::StoreError;
use gpuwhy_confine::{Helper, Trouble};
use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::{Duration, Instant};
use wire::Question;

/// What SQLite may allocate in a worker.
const HEAP: u64 = 256 << 20;
/// Beyond a statement's own time: to start, to open the file, and to hand over the answer.
const GRACE: Duration = Duration::from_secs(2);
/// Names of columns come on top of an answer's values.
const NAMES: usize = 8 << 20;
/// Where temporary files go.
const VARIABLES: &[&str] = &["TMPDIR", "SQLITE_TMPDIR"];

/// The status of a Rust program that panicked.
const PANICKED: i32 = 101;

/// How to start the process: a program that calls [`serve_statement`] when it is given these words and the trace file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Worker {
    pub program: PathBuf,
    pub words: Vec<OsString>,
}

impl Worker {
    pub(super) fn answer(
        &self,
        file: &Path,
        sql: &str,
        limits: &Limits,
        stop: &Stop,
    ) -> Result<Answer, StoreError> {
        let failed =
            |what: &str, error: &std::io::Error| StoreError::Worker(format!("{what}: {error}; try again"));
        let mut words = self.words.clone();
        words.push(file.into());
        let helper = Helper { program: self.program.clone(), words, variables: VARIABLES, folder: None };
        let question = wire::question(&Question::new(sql, limits));
        let until = Instant::now() + limits.time + GRACE;
        let reply = helper.ask(&question, limits.bytes.saturating_add(NAMES), until, || stop.is_stopped());
        match reply {
            Ok(reply) => wire::read(&reply.bytes).unwrap_or_else(|| Err(ended(reply.status, limits))),
            Err(Trouble::Stopped) => Err(StoreError::Stopped),
            Err(Trouble::Late) => Err(StoreError::TooSlow(limits.time)),
            Err(Trouble::TooMuch) => Err(StoreError::TooMuchMemory(HEAP)),
            Err(Trouble::NotStarted(error)) => {
                Err(failed("the process that answers SQL could not be started", &error))
            }
            Err(Trouble::Lost(error)) => Err(failed("the process that answers SQL was lost", &error)),
        }
    }
}

/// What the end of a worker means that said nothing.
fn ended(status: ExitStatus, limits: &Limits) -> StoreError {
    use rustix::process::Signal;
    let is = |signal: Signal| status.signal() == Some(signal.as_raw());
    match status.code() {
        None if is(Signal::XCPU) || is(Signal::KILL) => StoreError::TooSlow(limits.time),
        None if is(Signal::XFSZ) => StoreError::TooLarge(limits.spill),
        // Rust ends a program that gets no memory, and so do the bindings of SQLite where it gets none for a value.
        None | Some(PANICKED) => StoreError::TooMuchMemory(HEAP),
        Some(_) => StoreError::Worker(format!("the process that answers SQL ended ({status}); try again")),
    }
}
