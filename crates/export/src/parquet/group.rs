//! Rows on their way, by column.

use super::file::File;
use gpuwhy_store::schema::Column;
use gpuwhy_store::{Record, ValueRef};
use parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int64Type};
use parquet::errors::ParquetError;

pub(super) struct Group {
    columns: Vec<Values>,
    pub(super) rows: usize,
}

struct Values {
    kind: Kind,
    /// For each row 1, or 0 for NULL.
    levels: Vec<i16>,
}

enum Kind {
    Integer(Vec<i64>),
    Real(Vec<f64>),
    Text(Vec<ByteArray>),
}

impl Group {
    pub(super) fn new(columns: &[Column]) -> Group {
        let kind = |column: &Column| match column.kind {
            "INTEGER" => Kind::Integer(Vec::new()),
            "REAL" => Kind::Real(Vec::new()),
            _ => Kind::Text(Vec::new()),
        };
        let columns = columns.iter().map(|column| Values { kind: kind(column), levels: Vec::new() });
        Group { columns: columns.collect(), rows: 0 }
    }

    pub(super) fn push(&mut self, record: &Record<'_>) {
        for (at, column) in self.columns.iter_mut().enumerate() {
            let there = match &mut column.kind {
                Kind::Integer(values) => record.integer(at).map(|value| values.push(value)).is_some(),
                Kind::Real(values) => record.real(at).map(|value| values.push(value)).is_some(),
                Kind::Text(values) => text(record, at).map(|value| values.push(value)).is_some(),
            };
            column.levels.push(there.into());
        }
        self.rows += 1;
    }

    pub(super) fn write(&self, file: &mut File) -> Result<(), ParquetError> {
        let mut group = file.next_row_group()?;
        for column in &self.columns {
            let Some(mut writer) = group.next_column()? else { break };
            let levels = Some(column.levels.as_slice());
            match &column.kind {
                Kind::Integer(values) => {
                    writer.typed::<Int64Type>().write_batch(values, levels, None)?;
                }
                Kind::Real(values) => {
                    writer.typed::<DoubleType>().write_batch(values, levels, None)?;
                }
                Kind::Text(values) => {
                    writer.typed::<ByteArrayType>().write_batch(values, levels, None)?;
                }
            }
            writer.close()?;
        }
        group.close().map(drop)
    }
}

/// A number in a column of texts is a text here.
fn text(record: &Record<'_>, at: usize) -> Option<ByteArray> {
    match record.value(at) {
        ValueRef::Null | ValueRef::Blob(_) => None,
        ValueRef::Integer(number) => Some(number.to_string().into_bytes().into()),
        ValueRef::Real(number) => Some(number.to_string().into_bytes().into()),
        ValueRef::Text(_) => record.text(at).map(|text| text.into_owned().into_bytes().into()),
    }
}
