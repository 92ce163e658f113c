//! A file of an earlier version becomes one of ours: what it lacks is added, what follows from that is made anew.

use super::ddl::complete;
use super::{Missing, VIEWS, missing_parts};
use rusqlite::{Connection, Transaction, TransactionBehavior};

/// All or nothing. New columns are empty in old rows, and come last as in a new file: those who wrote
/// `SELECT *` find the columns they know where they were.
pub fn migrate(db: &Connection) -> rusqlite::Result<()> {
    let tx = Transaction::new_unchecked(db, TransactionBehavior::Immediate)?;
    for view in VIEWS {
        tx.execute_batch(&format!("DROP VIEW IF EXISTS {}", view.name))?;
    }
    for gap in missing_parts(&tx)? {
        match gap {
            Missing::Table(table) => tx.execute_batch(&table.create_sql())?,
            Missing::Columns(table, columns) => {
                for column in columns {
                    let sql = format!("ALTER TABLE {} ADD COLUMN {}", table.name, column.declaration());
                    tx.execute_batch(&sql)?;
                }
            }
        }
    }
    complete(&tx)?;
    tx.commit()
}
