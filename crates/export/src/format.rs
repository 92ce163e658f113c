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
    /// Names with one of these endings are of this format.
    pub endings: &'static [&'static str],
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
    Format { name, about, ending, endings: &[], findings: false, shape: Shape::Stream { text, write } }
}

impl Format {
    const fn with_findings(self) -> Format {
        Format { findings: true, ..self }
    }

    const fn named(self, endings: &'static [&'static str]) -> Format {
        Format { endings, ..self }
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
    .named(&[".pftrace", ".perfetto-trace"])
    .with_findings(),
    stream(
        "chrome",
        ".trace.json",
        true,
        chrome::write,
        "the trace event format, for chrome://tracing and what else reads it: the same tracks, arrows and counters",
    )
    .named(&[".chrome.json", ".trace.json"])
    .with_findings(),
    stream(
        "pprof",
        ".pb.gz",
        false,
        pprof::write,
        "for `go tool pprof`: calls and time by stack, waits between calls and running code included, with operation, process, thread and cause as labels",
    )
    .named(&[".pb.gz", ".pprof"]),
    stream(
        "speedscope",
        ".speedscope.json",
        true,
        speedscope::write,
        "for speedscope.app: time by thread and stack, waits between calls and running code included; a profile for each process",
    )
    .named(&[".speedscope.json", ".speedscope"]),
    stream(
        "folded",
        ".folded",
        true,
        folded::write,
        "for flame graphs: a line a stack, waits between calls and running code included: process, thread and frames with ; between them, and its nanoseconds",
    )
    .named(&[".folded", ".collapsed"]),
    stream(
        "otlp",
        ".jsonl",
        true,
        otlp::write,
        "for OpenTelemetry: metrics, findings as logs, slow calls as spans; a request a line, as the Collector's file receiver reads them",
    )
    .named(&[".jsonl", ".otlp"]),
    Format {
        name: "parquet",
        about: "for duckdb, pandas, Spark: a folder with a file for each table and view",
        ending: "/",
        endings: &["/", ".parquet"],
        findings: false,
        shape: Shape::Folder { write: parquet::write },
    },
];

/// The format of that name.
pub fn find(name: &str) -> Option<&'static Format> {
    FORMATS.iter().find(|format| format.name == name)
}

/// Why a file's name says no format.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unclear {
    /// These formats have names that end so.
    Several(Vec<&'static str>),
    Unknown,
}

/// The format that a file of this name is of.
pub fn of_file(name: &str) -> Result<&'static Format, Unclear> {
    let name = name.to_lowercase();
    let matches = |format: &&Format| format.endings.iter().any(|ending| name.ends_with(ending));
    if let Some(format) = FORMATS.iter().find(matches) {
        return Ok(format);
    }
    let file = name.rsplit('/').next().unwrap_or_default();
    let Some((_, last)) = file.rsplit_once('.') else { return Err(Unclear::Unknown) };
    let last = format!(".{last}");
    let may_be = |format: &&Format| format.endings.iter().any(|ending| ending.ends_with(&last));
    let several: Vec<&str> = FORMATS.iter().filter(may_be).map(|format| format.name).collect();
    Err(if several.len() > 1 { Unclear::Several(several) } else { Unclear::Unknown })
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

    #[test]
    fn a_name_says_its_format_and_one_that_could_be_several_is_refused() {
        let of = |name: &str| of_file(name).map(|format| format.name);
        for (name, format) in [
            ("run.pftrace", "perfetto"),
            ("/tmp/run.PB.GZ", "pprof"),
            ("run.pprof", "pprof"),
            ("run.speedscope.json", "speedscope"),
            ("run.trace.json", "chrome"),
            ("run.folded", "folded"),
            ("run.jsonl", "otlp"),
            ("tables/", "parquet"),
            ("run.parquet", "parquet"),
        ] {
            assert_eq!(of(name), Ok(format), "{name}");
        }
        assert_eq!(of("run.json"), Err(Unclear::Several(vec!["chrome", "speedscope"])));
        for name in ["run.gz", "run", "run.db", "a.json/run", ""] {
            assert_eq!(of(name), Err(Unclear::Unknown), "{name}");
        }
    }

    #[test]
    fn no_ending_is_of_two_formats_and_the_usual_one_is_found() {
        for format in FORMATS {
            assert_eq!(of_file(&format!("x{}", format.ending)).map(|found| found.name), Ok(format.name));
            for ending in format.endings {
                assert_eq!(
                    of_file(&format!("x{ending}")).map(|found| found.name),
                    Ok(format.name),
                    "{ending}"
                );
            }
        }
    }
}
