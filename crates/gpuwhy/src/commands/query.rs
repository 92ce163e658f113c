//! `gpuwhy query`: SQL, or filters without SQL.

use super::sql_worker;
use crate::chosen;
use crate::cli::{Format, QueryOptions};
use crate::failure::Failure;
use crate::log::log;
use crate::nodes::{Asked, NodeReport, WithNodes};
use crate::paths;
use gpuwhy_model::units::count;
use gpuwhy_nodes::Part;
use gpuwhy_query::{EventsRequest, Rows, SqlRequest, events, render, sql};
use std::io::Write;
use std::path::{Path, PathBuf};

/// The name of a table or view alone asks for all of it.
fn whole(statement: String) -> String {
    if is_name(&statement) { format!("SELECT * FROM {statement}") } else { statement }
}

/// As tables and views are named.
fn is_name(word: &str) -> bool {
    !word.is_empty() && word.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
}

pub(crate) fn run(options: &QueryOptions) -> Result<(), Failure> {
    let (file, statement) = match options.fan.nodes.is_empty() {
        true => split(options)?,
        false => match options.words.as_slice() {
            [] => (PathBuf::new(), None),
            [statement] if !is_file(statement) => (PathBuf::new(), Some(statement.clone())),
            _ => return Err(Failure::both()),
        },
    };
    let filtered = options.op.is_some() || options.pid.is_some() || options.since.is_some();
    if statement.is_some() && filtered {
        return Err(Failure::Usage(
            "--op, --pid and --since are for queries without SQL; put them into WHERE".into(),
        ));
    }
    let mut asked = match options.fan.nodes.is_empty() {
        true => Asked::file(&file)?,
        // Nobody knows which time a statement is about.
        false => Asked::nodes(&options.fan, options.since.map_or(Part::All, Part::Since))?,
    };
    asked.reader.answer_in(sql_worker::worker());
    let reader = &asked.reader;
    let rows = match statement {
        Some(statement) => {
            let statement = whole(statement);
            let seconds = Some(options.timeout.as_secs_f64().ceil() as u64);
            sql(reader, &SqlRequest { statement, limit: Some(options.limit), seconds })?
        }
        None => events(
            reader,
            &EventsRequest {
                op: options.op.as_deref().map(|op| chosen::operation(reader, op)).transpose()?,
                pid: options.pid.as_ref().map(|who| who.one(reader)).transpose()?,
                since: options.since.map(|since| format!("{}s", since.as_secs_f64())),
                limit: Some(options.limit),
            },
        )
        .map_err(|error| asked.failure(error))?,
    };
    let format = if options.json { Format::Json } else { options.format };
    print(&rows, format, asked.nodes.as_deref())?;
    if format != Format::Json {
        asked.report();
    }
    Ok(())
}

/// Which of the words is the file and which the SQL: a statement has a space in it, or is the name of a table or view, and is no
/// path.
fn split(options: &QueryOptions) -> Result<(PathBuf, Option<String>), Failure> {
    let default = || options.db.clone().unwrap_or_else(paths::default_trace);
    match options.words.as_slice() {
        [] => Ok((default(), None)),
        [file, statement] => Ok((PathBuf::from(file), Some(statement.clone()))),
        [word] if is_file(word) => Ok((PathBuf::from(word), None)),
        [statement] => Ok((default(), Some(statement.clone()))),
        _ => Err(Failure::Usage("give a trace file and one SQL statement in quotes".into())),
    }
}

fn is_file(word: &str) -> bool {
    let path = word.starts_with(['/', '.']) && !word.starts_with("/*");
    let is_statement = is_name(word) || word.split_whitespace().count() != 1;
    path || Path::new(word).exists() || !is_statement
}

fn print(rows: &Rows, format: Format, nodes: Option<&[NodeReport]>) -> Result<(), Failure> {
    let text = match format {
        Format::Json => render::json(&WithNodes { answer: rows, nodes })?,
        Format::Csv => render::csv(rows),
        Format::Table => render::table(rows),
    };
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(|error| match error.kind() {
        std::io::ErrorKind::BrokenPipe => Failure::Silent,
        _ => Failure::Failed(format!(
            "the answer could not be written: {error}; free space, or write elsewhere"
        )),
    })?;
    // What an answer does not cover belongs to it; JSON carries it within.
    if format != Format::Json {
        if rows.truncated {
            log!("there are more than these {} rows; --limit N gives more", count(rows.rows.len() as u64));
        }
        if rows.coverage.lost > 0 {
            log!("{} records were lost while tracing; see table loss", count(rows.coverage.lost));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bare_name_is_a_table_unless_it_is_a_file() {
        for statement in ["op_summary", "cuda_events", "SELECT 1", "/* all */ SELECT 1"] {
            assert!(!is_file(statement), "{statement}");
        }
        for file in ["run.db", "/nowhere/run", "./run", "../op_summary", "Cargo.toml", "RUN"] {
            assert!(is_file(file), "{file}");
        }
        // Tests run in the folder of their package.
        assert!(is_file("src"));
    }
}
