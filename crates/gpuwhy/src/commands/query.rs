//! `gpuwhy query`: SQL, or filters without SQL.

use crate::cli::{Format, QueryOptions};
use crate::failure::Failure;
use crate::paths;
use gpuwhy_model::units::count;
use gpuwhy_query::{EventsRequest, Rows, SqlRequest, events, render, sql};
use gpuwhy_store::Reader;
use std::io::Write;
use std::path::{Path, PathBuf};

pub(crate) fn run(options: &QueryOptions) -> Result<(), Failure> {
    let (file, statement) = split(options)?;
    let reader = Reader::open(&file)?;
    let rows = match statement {
        Some(_) if options.op.is_some() || options.pid.is_some() || options.since.is_some() => {
            return Err(Failure::Usage("--op, --pid and --since are for queries without SQL; put them into WHERE".into()));
        }
        Some(statement) => sql(&reader, &SqlRequest { statement, limit: Some(options.limit), seconds: None })?,
        None => events(
            &reader,
            &EventsRequest {
                op: options.op.clone(),
                pid: options.pid,
                since: options.since.map(|since| format!("{}s", since.as_secs_f64())),
                limit: Some(options.limit),
            },
        )?,
    };
    print(&rows, if options.json { Format::Json } else { options.format })
}

/// Which of the words is the file and which the SQL: a statement has a space in it, or is no file.
fn split(options: &QueryOptions) -> Result<(PathBuf, Option<String>), Failure> {
    let default = || options.db.clone().unwrap_or_else(paths::default_trace);
    match options.words.as_slice() {
        [] => Ok((default(), None)),
        [file, statement] => Ok((PathBuf::from(file), Some(statement.clone()))),
        [word] if Path::new(word).exists() || !word.trim().contains(char::is_whitespace) => {
            Ok((PathBuf::from(word), None))
        }
        [statement] => Ok((default(), Some(statement.clone()))),
        _ => Err(Failure::Usage("give a trace file and one SQL statement in quotes".into())),
    }
}

fn print(rows: &Rows, format: Format) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    match format {
        Format::Json => writeln!(out, "{}", render::json(rows)?)?,
        Format::Csv => write!(out, "{}", render::csv(rows))?,
        Format::Table => write!(out, "{}", render::table(rows))?,
    }
    out.flush()?;
    // What an answer does not cover belongs to it; JSON carries it within.
    if format != Format::Json {
        if rows.truncated {
            eprintln!("gpuwhy: there are more than these {} rows; --limit N gives more", count(rows.rows.len() as u64));
        }
        if rows.coverage.lost > 0 {
            eprintln!("gpuwhy: {} records were lost while tracing; see table loss", count(rows.coverage.lost));
        }
    }
    Ok(())
}
