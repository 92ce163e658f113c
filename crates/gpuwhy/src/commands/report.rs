//! `gpuwhy report`: the answer on one page, for a ticket.

use crate::chosen::{self, Moment, Who};
use crate::cli::parse_group;
use crate::failure::Failure;
use crate::report::Report;
use crate::{output, paths};
use clap::Args;
use gpuwhy_model::units::{duration, parse_duration, printable, size, time_of_day};
use gpuwhy_query::{ExplainRequest, QueryError, Series, SeriesRequest, explain, series};
use gpuwhy_store::{Access, Reader};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Points of a curve.
const POINTS: usize = 400;

#[derive(Debug, Args)]
#[command(after_help = "\
One file: no script, nothing loaded from elsewhere. It opens from disk, follows the reader's light or dark colours, and prints.
Exit status 3 if the trace has nothing to answer from.

Examples:
  gpuwhy report run.db -o run.html                 # attach run.html to the ticket
  gpuwhy report run.db -o run.html --since 10m --pid 4242
  gpuwhy report run.db -o - | mail -a 'Content-Type: text/html' -s stall oncall@example.com")]
pub(crate) struct ReportOptions {
    /// The trace file
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
    /// The trace file
    #[arg(long, env = "GPUWHY_DB", value_name = "FILE")]
    db: Option<PathBuf>,
    /// Where to: a file, or - for stdout
    #[arg(long, short, value_name = "OUT")]
    output: PathBuf,
    /// Replace what is there
    #[arg(long)]
    force: bool,
    /// Let this group read what is written; without it only its owner may
    #[arg(long, value_name = "NAME", value_parser = parse_group)]
    group: Option<u32>,
    /// Only this process, by its number or its name
    #[arg(long, value_name = "P", value_parser = Who::parse, allow_negative_numbers = true)]
    pid: Option<Who>,
    /// Only the last so long before the newest event in the file: 90s, 5m, 2h, 1d
    #[arg(long, value_name = "D", allow_hyphen_values = true, value_parser = parse_duration, conflicts_with = "from")]
    since: Option<Duration>,
    /// Only what began from this time on: 03:00 (UTC, of the trace's last day) or 2026-11-15T03:00:00Z
    #[arg(long, value_name = "TIME", value_parser = Moment::parse)]
    from: Option<Moment>,
    /// Only what began before this time
    #[arg(long, visible_alias = "until", value_name = "TIME", value_parser = Moment::parse)]
    to: Option<Moment>,
}

pub(crate) fn run(options: &ReportOptions) -> Result<(), Failure> {
    let file = options.file.clone().or_else(|| options.db.clone()).unwrap_or_else(paths::default_trace);
    let reader = Reader::open(&file)?;
    paths::mention_roots(&file, "report");
    let to_stdout = options.output == Path::new("-");
    if !to_stdout {
        output::free(&options.output, options.force, &[reader.path()])?;
    }
    let page = report(&reader, options)?.page();
    if to_stdout {
        let mut out = io::stdout().lock();
        out.write_all(page.as_bytes())?;
        return Ok(out.flush()?);
    }
    let path = &options.output;
    let made = output::file(path, Access { group: options.group })?;
    made.as_file().write_all(page.as_bytes()).map_err(|error| output::unwritable(path, &error))?;
    output::keep(made, path, options.force)?;
    let shown = printable(&path.display().to_string());
    Ok(writeln!(io::stdout(), "{shown}: {}, one page that opens in any browser", size(page.len() as u64))?)
}

fn report(reader: &Reader, options: &ReportOptions) -> Result<Report, Failure> {
    let since = options.since.map(|since| format!("{}s", since.as_secs_f64()));
    let (from_ns, to_ns) = chosen::times(reader, options.from, options.to)?;
    let pid = options.pid.as_ref().map(|who| who.one(reader)).transpose()?;
    let request = ExplainRequest { pid, since: since.clone(), from_ns, to_ns, ..ExplainRequest::default() };
    let explained = explain(reader, &request)?;
    let request = SeriesRequest {
        metrics: vec!["sm_pct".into()],
        since,
        from_ns,
        to_ns,
        points: Some(POINTS),
        ..SeriesRequest::default()
    };
    let utilisation: Option<Series> = match series(reader, &request) {
        Ok(series) => Some(series),
        Err(QueryError::NoData(_)) => None,
        Err(error) => return Err(error.into()),
    };
    let mut processes = reader.processes()?;
    processes.retain(|process| pid.is_none_or(|pid| process.pid == pid));
    let name = reader.path().file_name().map(|name| name.to_string_lossy().into_owned());
    Ok(Report {
        explained,
        utilisation,
        sessions: reader.sessions()?,
        processes,
        part: part(options, pid, from_ns, to_ns),
        name: name.unwrap_or_default(),
    })
}

/// What was asked about, where that is not all of the trace.
fn part(options: &ReportOptions, pid: Option<u32>, from_ns: Option<u64>, to_ns: Option<u64>) -> String {
    let mut words = String::new();
    if let Some(pid) = pid {
        words += &format!("; only process {pid}");
    }
    if let Some(since) = options.since {
        words += &format!("; only the last {}", duration(since.as_nanos().min(u64::MAX.into()) as u64));
    }
    for (what, time) in [("from", from_ns), ("until", to_ns)] {
        words += &time.map(|ns| format!("; only {what} {}", time_of_day(ns))).unwrap_or_default();
    }
    words
}
