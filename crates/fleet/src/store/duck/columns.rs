//! Events as columns: DuckDB takes them a vector at a time, which costs a third of taking them value by value.

use crate::point::Event;
use duckdb::Appender;
use duckdb::arrow::array::{
    ArrayRef, Float64Builder, Int32Builder, Int64Builder, RecordBatch, StringBuilder, UInt32Builder,
};
use duckdb::arrow::error::ArrowError;
use std::sync::Arc;

/// Rows of one batch of columns.
const ROWS: usize = 8 * 2048;

/// Events with who sent them.
pub(super) fn append<'a>(
    appender: &mut Appender<'_>,
    events: impl Iterator<Item = (&'a Event, u32)>,
) -> duckdb::Result<()> {
    let mut columns = Columns::default();
    for (event, sender) in events {
        columns.add(event, sender);
        if columns.rows == ROWS {
            appender.append_record_batch(columns.finish()?)?;
        }
    }
    match columns.rows {
        0 => Ok(()),
        _ => appender.append_record_batch(columns.finish()?),
    }
}

/// In the order of the table.
#[derive(Debug, Default)]
struct Columns {
    rows: usize,
    timestamp_ns: Int64Builder,
    cluster_id: StringBuilder,
    node_id: StringBuilder,
    metric_name: StringBuilder,
    rank: Int32Builder,
    nranks: Int32Builder,
    value_double: Float64Builder,
    value_int: Int64Builder,
    attrs: StringBuilder,
    job_id: StringBuilder,
    kind: StringBuilder,
    sender: UInt32Builder,
}

impl Columns {
    fn add(&mut self, event: &Event, sender: u32) {
        let origin = &event.origin;
        self.rows += 1;
        self.timestamp_ns.append_value(event.timestamp_ns);
        self.cluster_id.append_value(&origin.cluster);
        self.node_id.append_value(&origin.node);
        self.metric_name.append_value(&event.name);
        self.rank.append_option(origin.rank);
        self.nranks.append_option(origin.nranks);
        self.value_double.append_option(event.double);
        self.value_int.append_option(event.int);
        self.attrs.append_option(event.attrs.as_deref());
        self.job_id.append_option(origin.job.as_deref());
        self.kind.append_value(event.kind.name());
        self.sender.append_value(sender);
    }

    fn finish(&mut self) -> duckdb::Result<RecordBatch> {
        self.rows = 0;
        let columns: [(&str, ArrayRef); 12] = [
            ("timestamp_ns", Arc::new(self.timestamp_ns.finish())),
            ("cluster_id", Arc::new(self.cluster_id.finish())),
            ("node_id", Arc::new(self.node_id.finish())),
            ("metric_name", Arc::new(self.metric_name.finish())),
            ("rank", Arc::new(self.rank.finish())),
            ("nranks", Arc::new(self.nranks.finish())),
            ("value_double", Arc::new(self.value_double.finish())),
            ("value_int", Arc::new(self.value_int.finish())),
            ("attrs", Arc::new(self.attrs.finish())),
            ("job_id", Arc::new(self.job_id.finish())),
            ("kind", Arc::new(self.kind.finish())),
            ("sender", Arc::new(self.sender.finish())),
        ];
        let failed = |error: ArrowError| duckdb::Error::ToSqlConversionFailure(Box::new(error));
        RecordBatch::try_from_iter_with_nullable(
            columns.into_iter().map(|(name, column)| (name, column, true)),
        )
        .map_err(failed)
    }
}
