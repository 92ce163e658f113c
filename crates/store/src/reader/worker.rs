//! Statements of users in a process of their own. The engine looks at its deadline between instructions, and one instruction may
//! take minutes and gigabytes (`instr`, `LIKE`, a row of large values): only the kernel ends and limits that for certain.

mod serve;
mod wire;

pub use serve::serve_statement;

use super::sql::{Answer, Limits};
use super::stop::Stop;
use crate::StoreError;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::ffi::OsString;
use std::io::{ErrorKind, Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};
use wire::Question;

/// What SQLite may allocate in a worker.
const HEAP: u64 = 256 << 20;
/// Beyond a statement's own time: to start, to open the file, and to hand over the answer.
const GRACE: Duration = Duration::from_secs(2);
/// How soon a question that was taken back ends.
const TURN: Timespec = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };
/// Names of columns come on top of an answer's values.
const NAMES: usize = 8 << 20;
/// All that a worker has of our environment: where temporary files go. Tokens are not for it.
const VARIABLES: [&str; 2] = ["TMPDIR", "SQLITE_TMPDIR"];

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
        let mut child = Command::new(&self.program)
            .args(&self.words)
            .arg(file)
            .env_clear()
            .envs(VARIABLES.iter().filter_map(|name| Some((name, std::env::var_os(name)?))))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| failed("the process that answers SQL could not be started", &error))?;
        let until = Instant::now() + limits.time + GRACE;
        let read = ask(&mut child, sql, limits, until, stop);
        // However it went, nothing is left running.
        let _ = child.kill();
        let status = child.wait().map_err(|error| failed("the process that answers SQL was lost", &error))?;
        match read {
            Ok(bytes) => wire::read(&bytes).unwrap_or_else(|| Err(ended(status, limits))),
            Err(Trouble::Stopped) => Err(StoreError::Stopped),
            Err(Trouble::Late) => Err(StoreError::TooSlow(limits.time)),
            Err(Trouble::TooMuch) => Err(StoreError::TooMuchMemory(HEAP)),
            Err(Trouble::Io(error)) => Err(failed("the process that answers SQL could not be read", &error)),
        }
    }
}

/// Why there is no answer to read.
enum Trouble {
    Stopped,
    Late,
    TooMuch,
    Io(std::io::Error),
}

fn ask(
    child: &mut Child,
    sql: &str,
    limits: &Limits,
    until: Instant,
    stop: &Stop,
) -> Result<Vec<u8>, Trouble> {
    let (Some(mut input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
        return Err(Trouble::Io(ErrorKind::BrokenPipe.into()));
    };
    // A worker that does not read has ended, and its status says why.
    let _ = input.write_all(&wire::question(&Question::new(sql, limits)));
    drop(input);
    read(output, limits.bytes.saturating_add(NAMES), until, stop)
}

/// All that comes until the pipe is closed.
fn read(mut output: ChildStdout, limit: usize, until: Instant, stop: &Stop) -> Result<Vec<u8>, Trouble> {
    let mut bytes = Vec::new();
    let mut part = vec![0; 64 << 10];
    loop {
        if stop.is_stopped() {
            return Err(Trouble::Stopped);
        }
        if Instant::now() >= until {
            return Err(Trouble::Late);
        }
        match poll(&mut [PollFd::new(&output, PollFlags::IN)], Some(&TURN)) {
            Ok(0) | Err(rustix::io::Errno::INTR) => continue,
            Ok(_) => {}
            Err(error) => return Err(Trouble::Io(error.into())),
        }
        match output.read(&mut part) {
            Ok(0) => return Ok(bytes),
            Ok(count) if bytes.len() + count > limit => return Err(Trouble::TooMuch),
            Ok(count) => bytes.extend_from_slice(&part[..count]),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(Trouble::Io(error)),
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
