//! Stacks of kept calls, as addresses.

use super::row::cached;
use gpuwhy_model::Stack;
use rusqlite::{Connection, params};
use std::fmt::Write as _;

pub(super) fn stacks(db: &Connection, stacks: &[Stack]) -> rusqlite::Result<()> {
    if stacks.is_empty() {
        return Ok(());
    }
    let mut insert = cached(db, "stacks", |table| table.insert_sql("INSERT OR IGNORE", 1))?;
    for stack in stacks {
        let mut addresses = String::from("[");
        for (depth, address) in stack.addresses.iter().enumerate() {
            let comma = if depth == 0 { "" } else { "," };
            // Writing to a String cannot fail.
            let _ = write!(addresses, "{comma}\"{address:#x}\"");
        }
        addresses.push(']');
        insert.execute(params![stack.stack_id, stack.pid, addresses])?;
    }
    Ok(())
}
