//! The table of formats.

use crate::{ExportError, Exported, Source, chrome, folded, otlp, parquet, perfetto, pprof, speedscope};
use std::io::{self, Write};

/// Opens a file of an export that has several, by its name.
pub type Files<'a> = dyn FnMut(&str) -> io::Result<Box<dyn Write + Send>> + 'a;

/// How a format lies on disk.
#[derive(Debug, Clone, Copy)]
pub enum Shape {
    /// One stream of bytes; text can be shown on a terminal.
    Stream { text: bool, write: fn(&Source<'_>, &mut dyn Write) -> Result<Exported, ExportError> },
    /// A folder of files.
    Folder { write: fn(&Source<'_>, &mut Files<'_>) -> Result<Exported, ExportError> },
}

#[derive(Debug, Clone, Copy)]
pub struct Format {
    /// What users type.
    pub name: &'static str,
    /// What opens it, and what is in it.
    pub about: &'static str,
    /// How such files are usually named.
    pub ending: &'static str,
    /// Whether it shows the findings of a [`Source`].
    pub findings: bool,
    pub shape: Shape,
}

/// A row of the table for a format that is one stream.
const fn stream(
    name: &'static str,
    ending: &'static str,
    text: bool,
    write: fn(&Source<'_>, &mut dyn Write) -> Result<Exported, ExportError>,
    about: &'static str,
) -> Format {
    Format { name, about, ending, findings: false, shape: Shape::Stream { text, write } }
}

impl Format {
    const fn with_findings(self) -> Format {
        Format { findings: true, ..self }
    }
}

pub static FORMATS: &[Format] = &[
    stream(
        "perfetto",
        ".pftrace",
        false,
        perfetto::write,
        "for ui.perfetto.dev: tracks by process, thread, stream and rank, arrows from cause to call, counters, stacks, findings",
    )
    .with_findings(),
    stream(
        "chrome",
        ".json",
        true,
        chrome::write,
        "the trace event format, for chrome://tracing and what else reads it: the same tracks, arrows and counters",
    )
    .with_findings(),
    stream(
        "pprof",
        ".pb.gz",
        false,
        pprof::write,
        "for `go tool pprof`: calls and time by stack, with operation, process and cause as labels",
    ),
    stream(
        "speedscope",
        ".speedscope.json",
        true,
        speedscope::write,
        "for speedscope.app: time by stack, a profile for each process",
    ),
    stream(
        "folded",
        ".folded",
        true,
        folded::write,
        "for flame graphs: a line a stack, frames with ; between them, and its nanoseconds",
    ),
    stream(
        "otlp",
        ".jsonl",
        true,
        otlp::write,
        "for OpenTelemetry: metrics, findings as logs, slow calls as spans; a request a line, as the Collector's file receiver reads them",
    ),
    Format {
        name: "parquet",
        about: "for duckdb, pandas, Spark: a folder with a file for each table and view",
        ending: "/",
        findings: false,
        shape: Shape::Folder { write: parquet::write },
    },
];

/// The format of that name.
pub fn find(name: &str) -> Option<&'static Format> {
    FORMATS.iter().find(|format| format.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_format_has_a_name_of_its_own_and_says_what_it_is() {
        let names: BTreeSet<&str> = FORMATS.iter().map(|format| format.name).collect();
        assert_eq!(names.len(), FORMATS.len());
        for format in FORMATS {
            assert!(!format.about.is_empty() && !format.ending.is_empty(), "{}", format.name);
            assert_eq!(find(format.name).map(|found| found.name), Some(format.name));
        }
    }
}
