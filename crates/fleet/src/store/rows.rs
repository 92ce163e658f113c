//! Rows of an answer.

use serde_json::{Map, Value};

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Rows {
    pub columns: Vec<String>,
    pub rows: Vec<Vec<Value>>,
    /// There were more.
    pub truncated: bool,
}

impl Rows {
    /// Each with its columns' names.
    pub fn objects(self) -> Vec<Map<String, Value>> {
        let columns = self.columns;
        self.rows.into_iter().map(|row| columns.iter().cloned().zip(row).collect()).collect()
    }
}
