//! Parquet: a file for each table and view, columns and types as the trace has them. What a column means is in each
//! file's metadata (`schema_doc`), and what the trace does not cover, too (`gpuwhy`).

use crate::about::About;
use crate::source::Meter;
use crate::{ExportError, Exported, Files, Source};
use gpuwhy_store::schema::{Column, TABLES, VIEWS};
use gpuwhy_store::{Filter, Record, Value, ValueRef};
use parquet::basic::{Compression, Encoding, LogicalType, Repetition, Type as Physical};
use parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::{ColumnPath, Type};
use serde_json::json;
use std::io::Write;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;

/// Rows that are held before they are written.
const ROWS_A_GROUP: usize = 1 << 16;

/// Groups between the thread that reads and the one that encodes.
const GROUPS_WAITING: usize = 2;

/// A row for each node of each launch: it follows from `calls`, `graphs` and `graph_nodes`, and can be larger than all
/// of them.
const LEFT_OUT: [&str; 1] = ["graph_launches"];

pub(crate) fn write(source: &Source<'_>, files: &mut Files<'_>) -> Result<Exported, ExportError> {
    let about = serde_json::to_string(&About::of(source)?)?;
    let meter = source.meter();
    let tables = TABLES.iter().map(|table| (table.name, table.about, table.columns));
    let views = VIEWS.iter().map(|view| (view.name, view.about, view.columns));
    for (name, meaning, columns) in tables.chain(views).filter(|(name, ..)| !LEFT_OUT.contains(name)) {
        let file = open(files(&format!("{name}.parquet"))?, meaning, columns, &about)?;
        table(source, name, columns, file, &meter)?;
    }
    Ok(meter.exported())
}

/// One thread reads rows, another one encodes them: both take about as long.
fn table(
    source: &Source<'_>,
    name: &str,
    columns: &[Column],
    mut file: File,
    meter: &Meter<'_>,
) -> Result<(), ExportError> {
    std::thread::scope(|threads| {
        let (read, encode) = sync_channel::<Group>(GROUPS_WAITING);
        let encoder = threads.spawn(move || -> Result<(), ParquetError> {
            for group in encode {
                group.write(&mut file)?;
            }
            file.close().map(drop)
        });
        let mut group = Group::new(columns);
        let (sql, values) = select(name, columns, &source.filter);
        // Nobody takes a group any more where the encoder has failed; it says why.
        let gone = |_| ExportError::Interrupted;
        let mut reading = source.reader.stream::<ExportError>(&sql, &values, |record| {
            meter.row()?;
            group.push(&record);
            if group.rows == ROWS_A_GROUP {
                read.send(std::mem::replace(&mut group, Group::new(columns))).map_err(gone)?;
            }
            Ok(())
        });
        if reading.is_ok() && group.rows > 0 {
            reading = read.send(group).map_err(gone);
        }
        drop(read);
        match encoder.join() {
            Ok(encoded) => encoded?,
            Err(panic) => std::panic::resume_unwind(panic),
        }
        reading
    })
}

/// Rows of the process and the time, of tables that have such.
fn select(name: &str, columns: &[Column], filter: &Filter) -> (String, Vec<Value>) {
    let has = |name: &str| columns.iter().any(|column| column.name == name);
    let time = ["timestamp_ns", "window_start_ns"].into_iter().find(|time| has(time));
    let mine = Filter {
        op: None,
        pid: filter.pid.filter(|_| has("pid")),
        from_ns: filter.from_ns.filter(|_| time.is_some()),
        to_ns: filter.to_ns.filter(|_| time.is_some()),
    };
    let (clause, values) = mine.clause(time.unwrap_or_default());
    let list: Vec<&str> = columns.iter().map(|column| column.name).collect();
    (format!("SELECT {} FROM {name}{clause}", list.join(", ")), values)
}

type File = SerializedFileWriter<Box<dyn Write + Send>>;

fn open(
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

/// Rows on their way, by column.
struct Group {
    columns: Vec<Values>,
    rows: usize,
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
    fn new(columns: &[Column]) -> Group {
        let kind = |column: &Column| match column.kind {
            "INTEGER" => Kind::Integer(Vec::new()),
            "REAL" => Kind::Real(Vec::new()),
            _ => Kind::Text(Vec::new()),
        };
        let columns = columns.iter().map(|column| Values { kind: kind(column), levels: Vec::new() });
        Group { columns: columns.collect(), rows: 0 }
    }

    fn push(&mut self, record: &Record<'_>) {
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

    fn write(&self, file: &mut File) -> Result<(), ParquetError> {
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
