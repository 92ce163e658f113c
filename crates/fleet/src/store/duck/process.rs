//! Somebody else's statement, in a process of its own: it is ended when its time is up or nobody waits, and where it dies the
//! server says so in a sentence and goes on.

use super::DuckStore;
use super::snapshot::Snapshot;
use super::worker::{Answer, Request};
use crate::store::{Reach, Rows, Stop, StoreError};
use gpuwhy_confine::{Helper, Trouble};
use std::path::Path;
use std::time::{Duration, Instant};

/// The hidden subcommand.
pub const SQL_WORKER: &str = "sql-worker";
/// Also after another version was put in its place.
const THIS_PROGRAM: &str = "/proc/self/exe";
/// Where DuckDB's library lies.
const VARIABLES: &[&str] = &["LD_LIBRARY_PATH"];
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
        let snapshot = {
            // Who writes holds it, too.
            let _open = self.lock();
            Snapshot::make(&self.path).map_err(|error| failed(&error))?
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
        answer(program, &request, reach, stop)
    }
}

fn failed(error: &std::io::Error) -> StoreError {
    StoreError::Failed(format!("a statement cannot be run: {error}"))
}

fn answer(program: &Path, request: &Request, reach: Reach, stop: &Stop) -> Result<Rows, StoreError> {
    let helper = Helper {
        program: program.into(),
        words: vec![SQL_WORKER.into()],
        variables: VARIABLES,
        folder: Some("/".into()),
    };
    let mut line = serde_json::to_vec(request).map_err(|error| failed(&error.into()))?;
    line.push(b'\n');
    let max_bytes = request.bytes * LONGER + (1 << 20);
    let until = Instant::now() + reach.time + GRACE;
    let died = || StoreError::Died(request.memory_bytes >> 20);
    match helper.ask(&line, max_bytes, until, || stop.is_stopped()) {
        Ok(reply) => match serde_json::from_slice(&reply.bytes) {
            Ok(Answer::Rows { columns, rows, truncated }) => Ok(Rows { columns, rows, truncated }),
            Ok(Answer::Slow) => Err(StoreError::Slow(reach.time)),
            Ok(Answer::Wrong(sentence)) => Err(StoreError::Sql(sentence)),
            Err(_) => Err(died()),
        },
        Err(Trouble::Stopped) => Err(StoreError::Stopped),
        Err(Trouble::Late) => Err(StoreError::Slow(reach.time)),
        Err(Trouble::TooMuch) => Err(died()),
        Err(Trouble::NotStarted(error) | Trouble::Lost(error)) => Err(failed(&error)),
    }
}
