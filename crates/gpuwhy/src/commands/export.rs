//! `gpuwhy export`: a trace in another tool's format.

use crate::chosen::{self, Moment};
use crate::cli::ExportOptions;
use crate::failure::Failure;
use crate::log::log;
use crate::nodes::Asked;
use crate::progress::Progress;
use crate::{output, paths};
use gpuwhy_export::{ExportError, Exported, FORMATS, Format, Shape, Source, Unclear};
use gpuwhy_model::Finding;
use gpuwhy_model::units::{count, printable, size};
use gpuwhy_query::{ExplainRequest, QueryError, explain, without_folder};
use gpuwhy_store::{Access, Filter, Limits, Reader};
use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::Path;

pub(crate) fn run(options: &ExportOptions) -> Result<(), Failure> {
    let format = format_of(options)?;
    let to_stdout = options.output == Path::new("-");
    match format.shape {
        Shape::Folder { .. } if to_stdout => {
            return Err(Failure::Usage(format!(
                "{} is a folder of files, so it cannot go to stdout; name a folder with -o",
                format.name
            )));
        }
        Shape::Stream { text: false, .. } if to_stdout && io::stdout().is_terminal() => {
            return Err(Failure::Usage(format!(
                "{} is not text, so it is not shown on a terminal; name a file with -o",
                format.name
            )));
        }
        _ => {}
    }
    let asked = asked(options)?;
    let (reader, trace) = (&asked.reader, asked.words());
    if !to_stdout {
        output::free(&options.output, options.force, &[reader.path()])?;
    }
    let filter = filter(reader, options)?;
    if let Shape::Folder { .. } = format.shape {
        output::replaceable(&options.output, format.name)?;
        // Tables that are not of a process or a time have rows whatever was chosen.
        let one = Limits { rows: 1, ..Limits::default() };
        let found = reader.events(&filter, &one)?.rows.len() as u64;
        nothing(&trace, &filter, Exported { rows: found })?;
    }
    let findings = if format.findings { findings(reader, &filter)? } else { Vec::new() };
    let progress = Progress::begin()?;
    let go_on = |rows| progress.rows(rows);
    let source = Source { reader, filter, findings: &findings, go_on: &go_on };
    if to_stdout {
        write_stdout(format, &source, &trace)?;
    } else {
        let exported = write(format, &source, options, &trace)?;
        progress.clear();
        report(format, &source, &options.output, exported)?;
    }
    asked.report();
    Ok(())
}

/// The one that is named, else the one that the file's name says.
fn format_of(options: &ExportOptions) -> Result<&'static Format, Failure> {
    if let Some(name) = &options.format {
        let found = gpuwhy_export::find(name);
        return found.ok_or_else(|| Failure::Usage(format!("there is no format {name}")));
    }
    if options.output == Path::new("-") {
        return Err(Failure::Usage(
            "stdout has no name that says its format; add --format, such as --format folded".into(),
        ));
    }
    let path = options.output.to_string_lossy();
    gpuwhy_export::of_file(&path).map_err(|unclear| {
        let name = printable(&path);
        Failure::Usage(match unclear {
            Unclear::Several(formats) => format!(
                "{name} may be {}: add --format, such as --format {}",
                formats.join(" or "),
                formats.first().copied().unwrap_or_default()
            ),
            Unclear::Unknown => {
                let known: Vec<&str> = FORMATS.iter().flat_map(|format| format.endings).copied().collect();
                format!(
                    "the name {name} says no format: add --format, or one of the endings {}",
                    known.join(" ")
                )
            }
        })
    })
}

fn asked(options: &ExportOptions) -> Result<Asked, Failure> {
    if options.fan.nodes.is_empty() {
        let file = options.file.clone().or_else(|| options.db.clone()).unwrap_or_else(paths::default_trace);
        return Asked::file(&file);
    }
    if options.file.is_some() {
        return Err(Failure::both());
    }
    // What cannot be written is said before anything is fetched.
    if options.output != Path::new("-") {
        output::free(&options.output, options.force, &[])?;
    }
    Asked::nodes(&options.fan, super::explain::part(options.since, options.from.map(Moment::before_now)))
}

fn filter(reader: &Reader, options: &ExportOptions) -> Result<Filter, Failure> {
    let Some(newest) = reader.newest_ns()? else {
        return Err(Failure::Nothing("the trace is empty: trace while a process uses the GPU".into()));
    };
    let since = options.since.map(|since| since.as_nanos().min(u64::MAX.into()) as u64);
    let (from, to) = chosen::times(reader, options.from, options.to)?;
    let from_ns = since.map(|since| newest.saturating_sub(since)).or(from);
    // SQLite's numbers are signed.
    let bound = |ns: u64| ns.min(i64::MAX as u64);
    let pid = options.pid.as_ref().map(|who| who.one(reader)).transpose()?;
    Ok(Filter { op: None, pid, from_ns: from_ns.map(bound), to_ns: to.map(bound) })
}

/// What `explain` says of the same part; nothing where there is nothing to explain.
fn findings(reader: &Reader, filter: &Filter) -> Result<Vec<Finding>, Failure> {
    let request = ExplainRequest {
        pid: filter.pid,
        from_ns: filter.from_ns,
        to_ns: filter.to_ns,
        ..ExplainRequest::default()
    };
    match explain(reader, &request) {
        Ok(explained) => Ok(without_folder(explained.findings, reader.path())),
        Err(QueryError::NoData(_)) => Ok(Vec::new()),
        Err(error) => Err(error.into()),
    }
}

fn write_stdout(format: &Format, source: &Source<'_>, trace: &str) -> Result<(), Failure> {
    let Shape::Stream { write, .. } = format.shape else { return Ok(()) };
    let mut out = BufWriter::with_capacity(1 << 16, io::stdout().lock());
    let failed = |error| match error {
        // The reader of our output went away.
        ExportError::Io(error) if error.kind() == io::ErrorKind::BrokenPipe => Failure::Silent,
        error => failure(error, Path::new("stdout")),
    };
    let exported = source.reader.at_one_moment(|| write(source, &mut out)).map_err(failed)?;
    out.flush().map_err(|error| failed(error.into()))?;
    nothing(trace, &source.filter, exported)
}

fn write(
    format: &Format,
    source: &Source<'_>,
    options: &ExportOptions,
    trace: &str,
) -> Result<Exported, Failure> {
    let (path, access) = (&options.output, Access { group: options.group });
    match format.shape {
        Shape::Stream { write, .. } => {
            let made = output::file(path, access)?;
            let mut out = BufWriter::with_capacity(1 << 16, made.as_file());
            let written = source.reader.at_one_moment(|| write(source, &mut out));
            let exported = written.map_err(|error| failure(error, path))?;
            out.flush().map_err(|error| output::unwritable(path, &error))?;
            drop(out);
            nothing(trace, &source.filter, exported)?;
            output::keep(made, path, options.force)?;
            Ok(exported)
        }
        Shape::Folder { write } => {
            let made = output::new_folder(path, access)?;
            let folder = made.path().to_path_buf();
            let mut open = |name: &str| -> io::Result<Box<dyn Write + Send>> {
                Ok(Box::new(BufWriter::with_capacity(1 << 16, access.create_new(&folder.join(name))?)))
            };
            // It sees to it that all tables are of one moment.
            let exported = write(source, &mut open).map_err(|error| failure(error, path))?;
            nothing(trace, &source.filter, exported)?;
            output::keep_folder(made, path, format.name)?;
            Ok(exported)
        }
    }
}

/// Where a selection is empty, there is nothing to keep.
fn nothing(trace: &str, filter: &Filter, exported: Exported) -> Result<(), Failure> {
    if exported.rows > 0 {
        return Ok(());
    }
    let owner = filter.pid.map(|pid| format!(" of process {pid}")).unwrap_or_default();
    Err(Failure::Nothing(format!(
        "the trace has no events{owner} in that time; `gpuwhy query {trace} \"SELECT DISTINCT pid FROM events\"` lists whose it has"
    )))
}

fn failure(error: ExportError, path: &Path) -> Failure {
    match error {
        ExportError::Store(error) => error.into(),
        ExportError::Usage(sentence) => Failure::Usage(sentence),
        ExportError::Interrupted => {
            Failure::Failed("the export was interrupted, and nothing was written".into())
        }
        ExportError::Io(error) => output::unwritable(path, &error),
    }
}

fn report(format: &Format, source: &Source<'_>, path: &Path, exported: Exported) -> Result<(), Failure> {
    let bytes = match path.is_dir() {
        false => std::fs::metadata(path).map_or(0, |metadata| metadata.len()),
        true => std::fs::read_dir(path)?.flatten().filter_map(|file| Some(file.metadata().ok()?.len())).sum(),
    };
    let path = printable(&path.display().to_string());
    writeln!(io::stdout(), "{path}: {}, {} rows, {}", format.name, count(exported.rows), size(bytes))?;
    let lost = source.reader.coverage(source.filter.from_ns)?.lost;
    if lost > 0 {
        log!("{} records were lost while tracing; the export says so, too", count(lost));
    }
    Ok(())
}
