//! A scenario from its recording: the same path as live data from the batches on.

use super::Played;
use super::scenario::{Recorded, Scenario};
use crate::failure::Failure;
use flate2::read::GzDecoder;
use gpuwhy_agent::{Overview, session_info};
use gpuwhy_cause::{Tallies, blame_rows};
use gpuwhy_ledger::Ledger;
use gpuwhy_model::{Coverage, Process, Recording};
use gpuwhy_store::{Options, Reader, Writer};
use std::collections::HashMap;
use std::fs::OpenOptions;
use std::path::Path;

pub(crate) fn play(scenario: &Scenario, file: &Path, why: Option<&str>) -> Result<Played, Failure> {
    let bytes = match scenario.recording {
        Recorded::Batches(bytes) => bytes,
        Recorded::File { trace, about } => return unpack(trace, about, file),
    };
    let recording: Recording = serde_json::from_reader(GzDecoder::new(bytes))?;
    let mut tallies = Tallies::default();
    let mut coverage = Coverage::default();
    let mut processes: HashMap<u32, Process> = HashMap::new();
    let session =
        session_info(recording.start_ns, 0, vec!["demo".into(), "--replay".into(), scenario.name.into()]);
    let options = Options { create_folders: true, ..Options::default() };
    let mut writer = Writer::create_or_append(file, &session, &recording.ops, &options)?;
    let mut ledger = Ledger::new(&recording.ops);
    let mut overview = Overview::default();
    for batch in &recording.batches {
        tallies.add(batch);
        for loss in &batch.losses {
            coverage.add_loss(&loss.probe, &loss.reason, loss.count);
        }
        coverage.sampled +=
            batch.windows.iter().map(|window| window.count.saturating_sub(window.kept)).sum::<u64>();
        processes.extend(batch.processes.iter().map(|process| (process.pid, process.clone())));
        let mut facts = ledger.take(batch);
        facts.blame = blame_rows(&batch.windows, &batch.waits, &recording.ops);
        overview.take(batch, &facts);
        writer.write(batch, &facts)?;
    }
    writer.finish(recording.end_ns)?;
    let how = match why {
        None => format!("REPLAYED from a recording of {}, as asked.", recording.about),
        Some(why) => {
            format!(
                "REPLAYED from a recording of {}, as it cannot be traced live here:\n{why}.",
                recording.about
            )
        }
    };
    Ok(Played {
        how,
        live: false,
        file: file.to_path_buf(),
        start_ns: recording.start_ns,
        end_ns: recording.end_ns,
        tallies,
        overview,
        ops: recording.ops,
        processes: processes.into_values().collect(),
        coverage,
    })
}

/// The trace of a run on hardware that is not here.
fn unpack(trace: &[u8], about: &str, file: &Path) -> Result<Played, Failure> {
    let mut out = OpenOptions::new().write(true).create_new(true).open(file).map_err(|error| {
        Failure::Failed(format!("{} cannot be written: {error}; name a new file with --out", file.display()))
    })?;
    std::io::copy(&mut GzDecoder::new(trace), &mut out)?;
    drop(out);
    let reader = Reader::open(file)?;
    let span = reader.span()?;
    Ok(Played {
        how: format!("REPLAYED from the trace of {about}."),
        live: false,
        file: file.to_path_buf(),
        start_ns: span.map_or(0, |span| span.start_ns),
        end_ns: span.map_or(0, |span| span.end_ns),
        tallies: Tallies::default(),
        overview: Overview::default(),
        ops: reader.ops()?,
        processes: reader.processes()?,
        coverage: reader.coverage(None)?,
    })
}
