//! A file of a table: its columns, and what is said of them.

use gpuwhy_store::schema::Column;
use parquet::basic::{Compression, Encoding, LogicalType, Repetition, Type as Physical};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::{ColumnPath, Type};
use serde_json::json;
use std::io::Write;
use std::sync::Arc;

pub(super) type File = SerializedFileWriter<Box<dyn Write + Send>>;

pub(super) fn open(
    out: Box<dyn Write + Send>,
    meaning: &str,
    columns: &[Column],
    about: &str,
) -> Result<File, ParquetError> {
    let fields: Vec<Arc<Type>> =
        columns.iter().map(|column| field(column).map(Arc::new)).collect::<Result<_, _>>()?;
    let schema = Type::group_type_builder("schema").with_fields(fields).build()?;
    let texts: serde_json::Map<String, serde_json::Value> = columns
        .iter()
        .map(|column| (column.name.to_string(), json!({"unit": column.unit, "about": column.about})))
        .collect();
    let pair = |key: &str, value: String| KeyValue::new(key.to_string(), value);
    let mut properties = WriterProperties::builder();
    for column in columns.iter().filter(|column| column.unit == "ns" && column.kind == "INTEGER") {
        // Hardly one is like another, but each is close to the one before.
        let path = ColumnPath::from(column.name);
        properties = properties
            .set_column_dictionary_enabled(path.clone(), false)
            .set_column_encoding(path, Encoding::DELTA_BINARY_PACKED);
    }
    let properties = properties
        .set_compression(Compression::SNAPPY)
        .set_statistics_enabled(EnabledStatistics::Chunk)
        .set_created_by(format!("gpuwhy {}", env!("CARGO_PKG_VERSION")))
        .set_key_value_metadata(Some(vec![
            pair("about", meaning.to_string()),
            pair("schema_doc", serde_json::Value::from(texts).to_string()),
            pair("gpuwhy", about.to_string()),
        ]))
        .build();
    SerializedFileWriter::new(out, Arc::new(schema), Arc::new(properties))
}

/// Any value may be NULL: SQLite's files can be changed by anybody.
fn field(column: &Column) -> Result<Type, ParquetError> {
    let (physical, logical) = match column.kind {
        "INTEGER" => (Physical::INT64, None),
        "REAL" => (Physical::DOUBLE, None),
        _ => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
    };
    Type::primitive_type_builder(column.name, physical)
        .with_repetition(Repetition::OPTIONAL)
        .with_logical_type(logical)
        .build()
}
