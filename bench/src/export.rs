//! Exports: how many events a second each format takes, against reading the same rows and writing nothing.

use crate::figures::{Figures, Limit, median};
use anyhow::{Context, Result};
use gpuwhy_export::{ExportError, FORMATS, Shape, Source};
use gpuwhy_model::{Batch, Facts, Frame, FrameKind, Stack};
use gpuwhy_probes::{PROBES, op_infos};
use gpuwhy_store::{Filter, Options, Reader, SessionInfo, Writer};
use std::io::{self, Write};
use std::path::Path;
use std::time::Instant;

/// A batch of calls, as the store's own figure has them.
const BATCH: u64 = 10_000;

pub(crate) fn measure(events: u64, rounds: usize, figures: &mut Figures) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("export.db");
    make(&path, events)?;
    let reader = Reader::open(&path)?;
    let rate = |work: &mut dyn FnMut() -> Result<()>| -> Result<f64> {
        let mut rates = Vec::new();
        for _ in 0..rounds {
            let began = Instant::now();
            work()?;
            rates.push(events as f64 / began.elapsed().as_secs_f64());
        }
        Ok(median(&mut rates))
    };
    let floor = rate(&mut || {
        let mut seen = 0;
        reader.timeline::<ExportError>(&Filter::default(), |_| {
            seen += 1;
            Ok(())
        })?;
        anyhow::ensure!(seen == events, "{seen} events were read of {events}");
        Ok(())
    })?;
    figures.add("events read in order of time, nothing written", floor, "events/s");
    for format in FORMATS {
        let mut bytes = 0;
        let rate = rate(&mut || {
            bytes = write(&format.shape, &Source::whole(&reader)).context(format.name)?;
            Ok(())
        })?;
        let note =
            format!("  {:.2} of reading, {:.0} bytes an event", rate / floor, bytes as f64 / events as f64);
        figures.add_limited_with_note(
            format!("export to {}", format.name),
            rate,
            "events/s",
            Limit::AtLeast(200_000.0),
            note,
        );
    }
    Ok(())
}

/// How many bytes it became.
fn write(shape: &Shape, source: &Source<'_>) -> Result<u64> {
    match shape {
        Shape::Stream { write, .. } => {
            let mut count = Count::default();
            // As `gpuwhy export` does it: without that each small read locks the file anew.
            source.reader.at_one_moment(|| write(source, &mut count))?;
            Ok(count.bytes)
        }
        Shape::Folder { write } => {
            let folder = tempfile::tempdir()?;
            let mut open = |name: &str| -> io::Result<Box<dyn Write + Send>> {
                Ok(Box::new(io::BufWriter::new(std::fs::File::create(folder.path().join(name))?)))
            };
            write(source, &mut open)?;
            std::fs::read_dir(folder.path())?.map(|file| Ok(file?.metadata()?.len())).sum()
        }
    }
}

#[derive(Default)]
struct Count {
    bytes: u64,
}

impl Write for Count {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.bytes += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Calls one after the other on each thread, with the stacks they refer to.
fn make(path: &Path, events: u64) -> Result<()> {
    let session = SessionInfo { start_ns: crate::store::call(0).start_ns, ..SessionInfo::default() };
    let ops = op_infos(PROBES);
    let mut writer = Writer::create_or_append(path, &session, &ops, &Options::default())?;
    let stacks = (0..128).map(|stack_id| Stack {
        stack_id,
        pid: 4242,
        frames: (0..24).map(|depth| frame(stack_id, depth)).collect(),
        ..Stack::default()
    });
    let batch = Batch { stacks: stacks.collect(), ..Batch::default() };
    writer.write(&batch, &Facts::default())?;
    let mut batch = Batch { calls: (0..BATCH).map(crate::store::call).collect(), ..Batch::default() };
    for _ in 0..events / BATCH {
        for call in &mut batch.calls {
            call.start_ns += BATCH * 1_500;
        }
        writer.write(&batch, &Facts::default())?;
    }
    let end_ns = batch.calls.last().map_or(2, |call| call.start_ns + call.duration_ns);
    Ok(writer.finish(end_ns)?)
}

fn frame(stack_id: i64, depth: i64) -> Frame {
    // The outer half is common to all.
    let own = if depth < 12 { stack_id } else { 0 };
    Frame {
        kind: if depth % 2 == 0 { FrameKind::Python } else { FrameKind::Native },
        function: Some(format!("function_{own}_{depth}")),
        file: Some(format!("/srv/train/module_{depth}.py")),
        line: Some(10 + depth as u32),
        module: if depth % 2 == 0 { String::new() } else { "/usr/lib/libtorch_cuda.so".into() },
        ..Frame::default()
    }
}
