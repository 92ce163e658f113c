//! What the engine enforces on every statement that runs on a reader: it may only read, within limits of time, memory and size.
//! The limits are in force before anything of the file is looked at: whoever made it is not trusted.

use super::Stop;
use super::spill::Spill;
use rusqlite::config::DbConfig;
use rusqlite::hooks::{AuthAction, AuthContext, Authorization};
use rusqlite::limits::Limit;
use rusqlite::{Connection, Result};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The largest value a statement may make.
pub(super) const LARGEST_VALUE: i32 = 16 << 20;

/// What SQLite may allocate in this process, all connections together. Our own statements need a small part of it.
pub(super) const HEAP: u64 = 1 << 30;

/// Functions that touch files, load code or change the engine. Some exist only in other builds of SQLite.
const FORBIDDEN: &[&str] =
    &["load_extension", "fts3_tokenizer", "readfile", "writefile", "edit", "fsdir", "lsmode"];

/// Pragmas that only describe tables, and the one that tells whether somebody has written.
const PRAGMAS: &[&str] =
    &["table_info", "table_xinfo", "table_list", "index_list", "index_info", "index_xinfo", "data_version"];

/// How long statements may run and how much they may spill to temporary files, shared with the handler that SQLite asks.
#[derive(Debug, Clone)]
pub(super) struct Deadline {
    begin: Instant,
    /// Since `begin`; 0 is never.
    nanoseconds: Arc<AtomicU64>,
    spill: Spill,
    /// Of the question that is being answered.
    stop: Arc<Mutex<Stop>>,
}

impl Default for Deadline {
    fn default() -> Self {
        Deadline {
            begin: Instant::now(),
            nanoseconds: Arc::default(),
            spill: Spill::default(),
            stop: Arc::default(),
        }
    }
}

impl Deadline {
    pub(super) fn set(&self, time: Duration, spill: u64) {
        let until = (self.begin.elapsed() + time).as_nanos().clamp(1, u64::MAX.into());
        self.nanoseconds.store(until as u64, Ordering::Relaxed);
        self.spill.begin(spill);
    }

    pub(super) fn clear(&self) {
        self.nanoseconds.store(0, Ordering::Relaxed);
    }

    pub(super) fn stop_with(&self, stop: &Stop) {
        *self.stop.lock().unwrap_or_else(PoisonError::into_inner) = stop.clone();
    }

    pub(super) fn stop(&self) -> Stop {
        self.stop.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.stop().is_stopped()
    }

    pub(super) fn has_spilled(&self) -> bool {
        self.spill.too_much.load(Ordering::Relaxed)
    }

    fn passed(&self) -> bool {
        if self.is_stopped() {
            return true;
        }
        let until = self.nanoseconds.load(Ordering::Relaxed);
        let now = self.begin.elapsed();
        until != 0 && (now.as_nanos() > u128::from(until) || self.spill.is_too_much(now))
    }
}

/// Process-wide, and never raised again: whoever needs less says so first.
pub(super) fn limit_heap(db: &Connection, bytes: u64) -> Result<()> {
    db.query_row(&format!("PRAGMA hard_heap_limit = {bytes}"), [], |_| Ok(()))
}

/// Limits, before the file's schema is read.
pub(super) fn limit(db: &mut Connection, deadline: &Deadline) -> Result<()> {
    limit_heap(db, HEAP)?;
    db.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
    db.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_FTS3_TOKENIZER, false)?;
    db.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    db.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_ATTACH_CREATE, false)?;
    db.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_ATTACH_WRITE, false)?;
    db.pragma_update(None, "cell_size_check", true)?;
    for (limit, value) in [
        (Limit::SQLITE_LIMIT_LENGTH, LARGEST_VALUE),
        (Limit::SQLITE_LIMIT_SQL_LENGTH, 256 << 10),
        (Limit::SQLITE_LIMIT_EXPR_DEPTH, 250),
        (Limit::SQLITE_LIMIT_COMPOUND_SELECT, 100),
        (Limit::SQLITE_LIMIT_VDBE_OP, 1 << 20),
        (Limit::SQLITE_LIMIT_LIKE_PATTERN_LENGTH, 1000),
        (Limit::SQLITE_LIMIT_VARIABLE_NUMBER, 100),
        (Limit::SQLITE_LIMIT_ATTACHED, 0),
        (Limit::SQLITE_LIMIT_TRIGGER_DEPTH, 1),
        (Limit::SQLITE_LIMIT_WORKER_THREADS, 0),
    ] {
        db.set_limit(limit, value)?;
    }
    let asked = deadline.clone();
    db.progress_handler(2000, Some(move || asked.passed()))
}

/// From now on nothing but reading; what stands for tables and views of a file has been made.
pub(super) fn close(db: &mut Connection) -> Result<()> {
    db.pragma_update(None, "query_only", true)?;
    db.authorizer(Some(authorize))
}

fn authorize(context: AuthContext<'_>) -> Authorization {
    let allowed = match context.action {
        AuthAction::Select | AuthAction::Read { .. } | AuthAction::Recursive => true,
        AuthAction::Function { function_name } => !contains(FORBIDDEN, function_name),
        AuthAction::Pragma { pragma_name, .. } => contains(PRAGMAS, pragma_name),
        _ => false,
    };
    if allowed { Authorization::Allow } else { Authorization::Deny }
}

fn contains(list: &[&str], name: &str) -> bool {
    list.iter().any(|entry| entry.eq_ignore_ascii_case(name))
}
