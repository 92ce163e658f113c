//! Traces of Ingero, read as if they were ours: temporary views over its tables have our names, columns and
//! conventions, so that every question that can be asked of our files can be asked of its. The file stays as it is.
//! What its data cannot support is NULL or empty in the views, and said in the notes that every answer carries.
//!
//! Its tables keep their names in SQL; where ours has the same name, its table is `main.` and that name.

mod kinds;
mod notes;
mod processes;
mod shape;
mod sums;
mod views;

use crate::reader::{Maker, Origin};
use crate::schema::{Clock, TABLES, VIEWS, call_view, document, events_sql, fill_buckets};
use gpuwhy_model::bucket_of;
use kinds::{KINDS, Kind};
use rusqlite::functions::FunctionFlags;
use rusqlite::{Connection, params};
use shape::Shape;

pub(crate) use shape::{Look, look};

/// What a reader must know of the file besides its views.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Ingero {
    /// A statement with one place holder, a time: how many calls since then were counted but are no rows.
    pub(crate) sampled_sql: Option<String>,
    /// The first start and the last.
    pub(crate) ends_sql: String,
    /// Operation, process, thread, node, start and duration of all calls.
    pub(crate) calls_sql: String,
    /// Node, thread, start and duration of all times that a thread was off the CPU.
    pub(crate) waits_sql: String,
}

/// Makes our tables and views for this connection.
pub(crate) fn open(db: &Connection) -> rusqlite::Result<(Origin, Ingero)> {
    // The buckets of `call_stats.hist`, which views compute; innocuous, so that views may use it.
    let pure =
        FunctionFlags::SQLITE_DETERMINISTIC | FunctionFlags::SQLITE_INNOCUOUS | FunctionFlags::SQLITE_UTF8;
    db.create_scalar_function("hist_bucket", 1, pure, |context| {
        Ok(bucket_of(context.get::<i64>(0)?.max(0) as u64) as i64)
    })?;
    let shape = Shape::of(db)?;
    for table in TABLES {
        let sql = match views::of(table, &shape) {
            Some(select) => format!("CREATE TEMP VIEW {} AS {select}", table.name),
            None => table.create_temp_sql(),
        };
        db.execute_batch(&sql)?;
    }
    for view in VIEWS {
        let select = match view.name {
            "cuda_events" => call_view("cuda", view.columns, Clock::None),
            "hip_events" => call_view("hip", view.columns, Clock::None),
            "events" => events_sql(Clock::None),
            _ => (view.sql)(),
        };
        db.execute_batch(&format!("CREATE TEMP VIEW {} AS {select}", view.name))?;
    }
    fill_buckets(db)?;
    fill_ops(db, &shape)?;
    processes::fill(db, &shape)?;
    describe(db, &shape)?;
    let ingero = Ingero {
        sampled_sql: shape.has_sums().then(sums::sampled),
        ends_sql: views::ends(),
        calls_sql: views::calls(&shape),
        waits_sql: views::waits(&shape),
    };
    Ok((Origin { maker: Maker::Ingero, notes: notes::of(&shape), schema: shape.schema }, ingero))
}

/// Operations that the file has rows or sums of, under our names. Of one that we do not know the file says the name.
fn fill_ops(db: &Connection, shape: &Shape) -> rusqlite::Result<()> {
    let mut row = db.prepare("INSERT INTO ops VALUES (?, ?, 'cuda', ?, ?, ?)")?;
    for &(source, op) in shape.kinds.union(&shape.summed).filter(|(source, _)| kinds::CALLS.contains(source))
    {
        let number = source * kinds::OPS_A_SOURCE + op;
        let kind = KINDS.iter().find(|kind| (kind.source, kind.op) == (source, op));
        match kind.and_then(Kind::call) {
            Some((name, call)) => {
                row.execute(params![number, name, call.family.name(), call.waits, call.role])?;
            }
            None => {
                let name = shape.name(db, source, op)?;
                row.execute(params![number, name, "other", false, None::<&str>])?;
            }
        }
    }
    Ok(())
}

/// `schema_doc`: our columns, and the file's own tables behind them.
fn describe(db: &Connection, shape: &Shape) -> rusqlite::Result<()> {
    document(db)?;
    let mut row = db.prepare("INSERT OR IGNORE INTO schema_doc VALUES (?, ?, '', ?)")?;
    for (table, columns) in &shape.tables {
        let ours = TABLES.iter().map(|ours| ours.name).chain(VIEWS.iter().map(|ours| ours.name));
        let clash = ours.into_iter().any(|name| name == table);
        let name = if clash { format!("main.{table}") } else { table.clone() };
        for column in columns {
            row.execute(params![name, column, "as Ingero stored it; see its table `schema_info`"])?;
        }
    }
    Ok(())
}
