//! OTLP in a file: metrics, findings as logs, slow calls as spans; a request a line, as the OpenTelemetry Collector's file
//! receiver reads them.

use crate::{ExportError, Exported, Source};
use gpuwhy_metrics::{FileError, otlp_of};
use gpuwhy_store::Span;
use std::io::Write;

pub(crate) fn write(source: &Source<'_>, out: &mut dyn Write) -> Result<Exported, ExportError> {
    if source.filter.pid.is_some() {
        return Err(ExportError::Usage(
            "--format otlp is of all processes of a host: leave out --pid".into(),
        ));
    }
    let Some(whole) = source.reader.span()? else { return Ok(Exported::default()) };
    let span = Span {
        start_ns: source.filter.from_ns.unwrap_or(whole.start_ns),
        end_ns: source.filter.to_ns.map_or(whole.end_ns, |to| to.saturating_sub(1)),
    };
    let rows = otlp_of(source.reader, Some(span), out, source.go_on)?;
    Ok(Exported { rows })
}

impl From<FileError> for ExportError {
    fn from(error: FileError) -> Self {
        match error {
            FileError::Store(error) => ExportError::Store(error),
            FileError::Write(error) => ExportError::Io(error),
            FileError::Interrupted => ExportError::Interrupted,
            other => ExportError::Io(std::io::Error::other(other)),
        }
    }
}
