//! A file of an earlier version, read as if it were of ours: temporary tables and views stand for what it lacks, so
//! that one set of questions does for all files. The file stays as it is. What a statement sorts goes to temporary files as in
//! every other trace, where its size is limited.

use crate::schema::{Missing, VIEWS, missing_parts};
use rusqlite::Connection;

pub(super) fn supplement(db: &Connection) -> rusqlite::Result<()> {
    for gap in missing_parts(db)? {
        // A name without a schema means the temporary thing first.
        let sql = match gap {
            Missing::Table(table) => table.create_temp_sql(),
            Missing::Columns(table, columns) => {
                let nothing: String = columns
                    .iter()
                    .map(|column| format!(", CAST(NULL AS {}) AS {}", column.kind, column.name))
                    .collect();
                format!("CREATE TEMP VIEW {0} AS SELECT *{nothing} FROM main.{0}", table.name)
            }
        };
        db.execute_batch(&sql)?;
    }
    for view in VIEWS {
        db.execute_batch(&view.create_temp_sql())?;
    }
    Ok(())
}
