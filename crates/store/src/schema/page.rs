//! The schema as a page for people.

use super::{Column, SCHEMA_VERSION, TABLES, VIEWS};
use std::fmt::Write;

/// In Markdown: every table and view with its columns.
pub fn markdown() -> String {
    let mut page = format!(
        "# The trace file\n\n\
         An SQLite database, `PRAGMA user_version` {SCHEMA_VERSION}. Times are nanoseconds of unix time in columns \
         that end in `_ns`, microseconds where they end in `_us`; `timestamp_ns` is always the start. Identifiers \
         that do not fit a JSON number are text, `0x` and hex digits. The same text is in every file: \
         `SELECT * FROM schema_doc`.\n"
    );
    for view in VIEWS {
        relation(&mut page, view.name, "view", view.about, view.columns);
    }
    for table in TABLES {
        relation(&mut page, table.name, "table", table.about, table.columns);
    }
    page
}

fn relation(page: &mut String, name: &str, kind: &str, about: &str, columns: &[Column]) {
    // Writing to a String cannot fail.
    let _ = write!(
        page,
        "\n## {name}\nA {kind}: {about}.\n\n| column | type | unit | about |\n|---|---|---|---|\n"
    );
    for column in columns {
        let _ =
            writeln!(page, "| `{}` | {} | {} | {} |", column.name, column.kind, column.unit, column.about);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::ddl::documented;

    #[test]
    fn the_page_names_every_table_and_column() {
        let page = markdown();
        for (relation, column) in documented() {
            assert!(
                page.contains(&format!("## {relation}\n")) && page.contains(&format!("`{}`", column.name))
            );
        }
    }
}
