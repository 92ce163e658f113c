//! Somebody else's statement, in a process of its own: it is ended when its time is up or nobody waits, and where it dies the
//! server says so in a sentence and goes on.

use super::DuckStore;
use super::snapshot::Snapshot;
use super::worker::{Answer, Request};
use crate::store::{Reach, Rows, Stop, StoreError};
use std::ffi::OsStr;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::time::{Duration, Instant};

/// The hidden subcommand.
pub const SQL_WORKER: &str = "sql-worker";
/// Also after another version was put in its place.
const THIS_PROGRAM: &str = "/proc/self/exe";
/// How often it is looked whether a statement is to end.
const TICK: Duration = Duration::from_millis(20);
/// It ends itself when its time is up; where it does not heed that, it is ended after so long.
const GRACE: Duration = Duration::from_secs(2);
/// JSON is so many times as long as what is in it, where it is long.
const LONGER: usize = 8;

impl DuckStore {
    pub(super) fn in_process(&self, sql: &str, reach: Reach, stop: &Stop) -> Result<Rows, StoreError> {
        let turn = self.gate.read(reach.time, stop);
        let Some(_turn) = turn else {
            return Err(if stop.is_stopped() { StoreError::Stopped } else { StoreError::Busy });
        };
        let failed =
            |error: std::io::Error| StoreError::Failed(format!("a statement cannot be run: {error}"));
        let snapshot = {
            // Who writes holds it, too.
            let _open = self.lock();
            Snapshot::make(&self.path).map_err(failed)?
        };
        let request = Request {
            database: snapshot.file(),
            temporary: snapshot.folder().join("temporary"),
            sql: sql.into(),
            rows: reach.rows,
            bytes: reach.bytes,
            time_ms: reach.time.as_millis() as u64,
            memory_bytes: self.options.sql_memory_bytes,
            threads: self.options.threads.min(2),
            max_temporary: self.options.temporary.clone(),
        };
        let program = self.options.worker.as_deref().unwrap_or(Path::new(THIS_PROGRAM));
        let child = start(program, &request).map_err(failed)?;
        answer(child, &request, reach, stop)
    }
}

/// It knows nothing of what the server was started with.
fn start(program: &Path, request: &Request) -> std::io::Result<Child> {
    let library = std::env::var_os("LD_LIBRARY_PATH");
    let mut child = Command::new(program)
        .arg(SQL_WORKER)
        .env_clear()
        .envs(library.iter().map(|path| (OsStr::new("LD_LIBRARY_PATH"), path)))
        .current_dir(PathBuf::from("/"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()?;
    let mut line = serde_json::to_vec(request)?;
    line.push(b'\n');
    let sent = child.stdin.take().map_or(Ok(()), |mut stdin| stdin.write_all(&line));
    if let Err(error) = sent {
        end(child);
        return Err(error);
    }
    Ok(child)
}

fn end(mut child: Child) {
    // It may have ended by itself.
    let _ = child.kill();
    let _ = child.wait();
}

fn answer(mut child: Child, request: &Request, reach: Reach, stop: &Stop) -> Result<Rows, StoreError> {
    let Some(stdout) = child.stdout.take() else {
        end(child);
        return Err(StoreError::Failed("a statement cannot be run: it has no output".into()));
    };
    let max = (request.bytes * LONGER + (1 << 20)) as u64;
    let deadline = Instant::now() + reach.time + GRACE;
    let (done, answered) = sync_channel(1);
    let reading = move || {
        let mut text = Vec::new();
        let read = stdout.take(max).read_to_end(&mut text);
        // Nobody waits where it was ended.
        let _ = done.send(read.map(|_| text));
    };
    let thread = std::thread::Builder::new().name("sql".into()).spawn(reading);
    if let Err(error) = thread {
        end(child);
        return Err(StoreError::Failed(format!("a statement cannot be run: {error}")));
    }
    let text = loop {
        match answered.recv_timeout(TICK) {
            Ok(text) => break text.unwrap_or_default(),
            Err(RecvTimeoutError::Disconnected) => break Vec::new(),
            Err(RecvTimeoutError::Timeout) if stop.is_stopped() => {
                end(child);
                return Err(StoreError::Stopped);
            }
            Err(RecvTimeoutError::Timeout) if Instant::now() > deadline => {
                end(child);
                return Err(StoreError::Slow(reach.time));
            }
            Err(RecvTimeoutError::Timeout) => {}
        }
    };
    end(child);
    match serde_json::from_slice(&text) {
        Ok(Answer::Rows { columns, rows, truncated }) => Ok(Rows { columns, rows, truncated }),
        Ok(Answer::Slow) => Err(StoreError::Slow(reach.time)),
        Ok(Answer::Wrong(sentence)) => Err(StoreError::Sql(sentence)),
        Err(_) => Err(StoreError::Died(request.memory_bytes >> 20)),
    }
}
