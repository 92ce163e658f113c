//! Rows as text: a table for people, CSV and JSON for programs. Pure functions.

use crate::Rows;
use crate::rows::hex;
use comfy_table::{CellAlignment, ContentArrangement, Table, presets};
use gpuwhy_model::units::printable;
use gpuwhy_store::Value;

/// Aligned columns without borders. Control characters are shown, not obeyed.
pub fn table(rows: &Rows) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(rows.columns.iter().map(|column| printable(column)));
    for row in &rows.rows {
        table.add_row(row.iter().map(cell));
    }
    for (place, column) in table.column_iter_mut().enumerate() {
        column.set_padding((0, 2));
        let numbers = |row: &Vec<Value>| {
            matches!(row.get(place), Some(Value::Integer(_) | Value::Real(_) | Value::Null))
        };
        if !rows.rows.is_empty() && rows.rows.iter().all(numbers) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    let mut text = String::new();
    for line in table.lines() {
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// As RFC 4180 says: commas, CRLF, quotes doubled; NULL is empty.
pub fn csv(rows: &Rows) -> String {
    let mut text = String::new();
    line(&mut text, rows.columns.iter().map(String::clone));
    for row in &rows.rows {
        line(&mut text, row.iter().map(plain));
    }
    text
}

/// One document: of rows, `{"rows": [...], "truncated": false, "coverage": {...}}`.
pub fn json(rows: &impl serde::Serialize) -> Result<String, serde_json::Error> {
    serde_json::to_string_pretty(rows).map(|text| text + "\n")
}

fn line(text: &mut String, fields: impl Iterator<Item = String>) {
    for (place, field) in fields.enumerate() {
        if place > 0 {
            text.push(',');
        }
        if field.contains([',', '"', '\r', '\n']) {
            text.push('"');
            text.push_str(&field.replace('"', "\"\""));
            text.push('"');
        } else {
            text.push_str(&field);
        }
    }
    text.push_str("\r\n");
}

fn plain(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::Integer(number) => number.to_string(),
        Value::Real(number) => number.to_string(),
        Value::Text(text) => text.clone(),
        Value::Blob(bytes) => hex(bytes),
    }
}

/// People read three decimals; programs get them all.
fn cell(value: &Value) -> String {
    match value {
        Value::Real(number) if number.abs() >= 0.001 || *number == 0.0 => format!("{number:.3}"),
        value => printable(&plain(value)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpuwhy_model::Coverage;
    use gpuwhy_store::Answer;

    fn rows() -> Rows {
        let text = |text: &str| Value::Text(text.into());
        let answer = Answer {
            columns: vec!["op".into(), "count".into(), "p50_us".into(), "note".into()],
            rows: vec![
                vec![text("cudaMalloc"), Value::Integer(12), Value::Real(1.25), text("a \"b\", c")],
                vec![text("cuCtx\u{1b}[31m"), Value::Integer(100_000), Value::Null, text("two\nlines")],
            ],
            truncated: false,
        };
        Rows::new(answer, Coverage::default())
    }

    #[test]
    fn tables_are_aligned_and_harmless() {
        assert_eq!(
            table(&rows()),
            "op           count  p50_us  note\n\
             cudaMalloc      12   1.250  a \"b\", c\n\
             cuCtx\u{fffd}[31m  100000          two\u{fffd}lines\n"
        );
    }

    #[test]
    fn csv_quotes_what_must_be_quoted() {
        assert_eq!(
            csv(&rows()),
            "op,count,p50_us,note\r\ncudaMalloc,12,1.25,\"a \"\"b\"\", c\"\r\ncuCtx\u{1b}[31m,100000,,\"two\nlines\"\r\n"
        );
    }

    #[test]
    fn json_is_one_document() {
        let value: serde_json::Value = serde_json::from_str(&json(&rows()).unwrap()).unwrap();
        assert_eq!(value["rows"][0]["op"], "cudaMalloc");
        assert_eq!(value["rows"][1]["p50_us"], serde_json::Value::Null);
        assert_eq!(value["truncated"], false);
        assert!(value["coverage"].is_object());
    }

    #[test]
    fn no_rows_are_a_header() {
        let none = Rows { rows: Vec::new(), ..rows() };
        assert_eq!(table(&none), "op  count  p50_us  note\n");
        assert_eq!(csv(&none), "op,count,p50_us,note\r\n");
    }
}
