//! `gpuwhy merge`: traces of several nodes in one file.

use crate::cli::MergeOptions;
use crate::failure::Failure;
use crate::nodes::{Gathered, report};
use crate::output;
use crate::progress::Progress;
use gpuwhy_model::units::{count, duration, printable};
use gpuwhy_nodes::Part;
use gpuwhy_store::merge::{ClockSource, Clocks, MergeError, MergedFile, merge};
use gpuwhy_store::{Access, StoreError};
use std::io::{self, BufWriter, Write};
use std::path::Path;
use tempfile::NamedTempFile;

pub(crate) fn run(options: &MergeOptions) -> Result<(), Failure> {
    let sources: Vec<&Path> = options.files.iter().map(std::path::PathBuf::as_path).collect();
    output::free(&options.output, options.force, &sources)?;
    let made = output::file(&options.output, Access { group: options.group })?;
    let progress = Progress::begin()?;
    if !options.fan.nodes.is_empty() {
        return of_nodes(options, made, &progress);
    }
    let clocks = if options.keep_clocks { Clocks::Keep } else { Clocks::Collectives };
    let merged = merge(&options.files, made.path(), clocks, &|rows| progress.rows(rows));
    drop(progress);
    let merged = merged.map_err(|error| failure(error, &options.output, made.path()))?;
    output::keep(made, &options.output, options.force)?;
    let mut out = BufWriter::new(io::stdout().lock());
    if options.json {
        serde_json::to_writer_pretty(
            &mut out,
            &serde_json::json!({"file": options.output, "merged": merged}),
        )?;
        writeln!(out)?;
    } else {
        for file in &merged {
            writeln!(out, "{}", printable(&sentence(file)))?;
        }
        let rows = merged.iter().map(|file| file.rows).sum();
        writeln!(out, "{}: {} rows", printable(&options.output.display().to_string()), count(rows))?;
    }
    Ok(out.flush()?)
}

/// The same of what other nodes have; a single one becomes the file as it is.
fn of_nodes(options: &MergeOptions, made: NamedTempFile, progress: &Progress) -> Result<(), Failure> {
    let part = options.since.map_or(Part::All, Part::Since);
    let gathered = Gathered::of(&options.fan, part, progress)?;
    let merged = match gathered.files.as_slice() {
        [only] => {
            let fail = |error: io::Error| output::unwritable(&options.output, &error);
            std::fs::copy(only, made.path()).map_err(fail)?;
            // A copy has the rights of the original.
            Access { group: options.group }.set(made.as_file()).map_err(fail)?;
            gathered.alone()?
        }
        _ => gathered.merge(made.path(), options.keep_clocks, progress)?,
    };
    progress.clear();
    output::keep(made, &options.output, options.force)?;
    let nodes = gathered.reported(&merged);
    let mut out = BufWriter::new(io::stdout().lock());
    if options.json {
        let answer = serde_json::json!({"file": options.output, "nodes": nodes});
        serde_json::to_writer_pretty(&mut out, &answer)?;
        writeln!(out)?;
    } else {
        let rows = merged.iter().map(|file| file.rows).sum();
        writeln!(out, "{}: {} rows", printable(&options.output.display().to_string()), count(rows))?;
    }
    out.flush()?;
    if !options.json {
        report(&nodes);
    }
    Ok(())
}

fn sentence(file: &MergedFile) -> String {
    let nodes = match file.nodes.is_empty() {
        true => "an unnamed node".into(),
        false => file.nodes.join(", "),
    };
    let clock = file.clock;
    let sign = if clock.shift_ns < 0 { "-" } else { "+" };
    let clock = match (clock.source, clock.error_ns) {
        (ClockSource::Reference, _) => "its clock is the one of the merged file".into(),
        (ClockSource::Measured, error) => format!(
            "clock {sign}{}, right within {}, as measured when it was fetched",
            duration(clock.shift_ns.unsigned_abs()),
            error.map_or_else(|| "an unknown time".into(), |ns| duration(ns.unsigned_abs())),
        ),
        (ClockSource::None, _) => "its clock was left as it is: no collective tells how it differs".into(),
        (ClockSource::Collectives, error) => format!(
            "clock {sign}{}, right within {}, by {} collectives",
            duration(clock.shift_ns.unsigned_abs()),
            error.map_or_else(|| "an unknown time".into(), |ns| duration(ns.unsigned_abs())),
            count(clock.collectives)
        ),
    };
    let pids = match file.pids_shifted {
        0 => String::new(),
        some => format!(
            "; {} process numbers are also of another node and were raised by {}",
            some,
            count(file.pid_shift as u64)
        ),
    };
    format!("{}: {} rows of {nodes}; {clock}{pids}", file.file.display(), count(file.rows))
}

/// What goes wrong with the file in the making goes wrong with the file that was asked for.
fn failure(error: MergeError, out: &Path, made: &Path) -> Failure {
    match error {
        MergeError::One => Failure::Usage(error.to_string()),
        MergeError::Store(StoreError::Full { path }) if path == made => {
            output::unwritable(out, &io::ErrorKind::StorageFull.into())
        }
        other => Failure::Failed(
            other.to_string().replace(&made.display().to_string(), &out.display().to_string()),
        ),
    }
}
