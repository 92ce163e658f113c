//! Seeds that are easier made by programs than by hand. `gpuwhy-fuzz --seeds` writes them; those of ELF files come from `elf.py`.

use crate::targets::trace_base::BASES;
use crate::{corpus, find, scratch};
use gpuwhy_fleet_core::ingest::{Format, Packing, Signal, fuzz as fleet};
use gpuwhy_probes::fuzz as probes;
use gpuwhy_store::Reader;
use std::fs;
use std::io::Write;

mod otlp;
mod python;

/// Kinds of records there may be, and the largest of them.
const KINDS: u16 = 40;
const LARGEST_RECORD: usize = 16 << 10;

/// Writes them all.
pub fn write() -> Result<(), String> {
    ring_records()?;
    for (name, memory) in python::memories() {
        put("python_memory", &name, &memory)?;
    }
    pushes()?;
    trace_stream()
}

fn put(target: &str, name: &str, bytes: &[u8]) -> Result<(), String> {
    let folder = corpus::folder(find(target).ok_or("there is no such target")?);
    let written = fs::create_dir_all(&folder).and_then(|()| fs::write(folder.join(name), bytes));
    written.map_err(|error| format!("{} cannot be written: {error}", folder.display()))
}

/// Of each kind the smallest that is understood, all zeros but the kind, and all ones where that is understood, too.
fn ring_records() -> Result<(), String> {
    let mut small = Vec::new();
    for kind in 0..KINDS {
        let record = |size: usize, fill: u8| {
            let mut record = vec![fill; size];
            record[8..10].copy_from_slice(&kind.to_le_bytes());
            record
        };
        let is_read = |record: &[u8]| probes::records(std::iter::once(record)) == 1;
        let Some(size) = (16..LARGEST_RECORD).step_by(8).find(|size| is_read(&record(*size, 0))) else {
            continue;
        };
        for fill in [0, 1, 0xff] {
            let record = record(size, fill);
            let framed = [&(size as u16).to_le_bytes()[..], &record].concat();
            match size {
                // What a kernel never sends is of no use as a seed.
                _ if !is_read(&record) => {}
                ..1024 => small.extend(framed),
                _ if fill == 0 => put("ring_records", &format!("kind-{kind}"), &framed)?,
                _ => {}
            }
        }
    }
    put("ring_records", "small", &small)
}

/// One of each kind of data, written and packed in each way; and the journal of them.
fn pushes() -> Result<(), String> {
    let mut segment = vec![0];
    for (which, signal) in Signal::ALL.into_iter().enumerate() {
        for (format, message) in otlp::messages(signal) {
            let batch =
                fleet::push(signal, format, Packing::None, &message).map_err(|error| error.to_string())?;
            let record = fleet::record(&batch);
            segment.extend(fleet::frame(&record));
            let how = which as u8 | if format == Format::Json { 4 } else { 0 };
            let name = format!("{}-{format:?}", signal.path().trim_start_matches("/v1/")).to_lowercase();
            put("otlp", &name, &[&[how][..], &message].concat())?;
            if format == Format::Protobuf {
                put("journal", &format!("record-{which}"), &[&[1][..], &record].concat())?;
                put("otlp", &format!("{name}-gzip"), &[&[how | 8][..], &gzip(&message)?].concat())?;
                let packed = zstd::encode_all(message.as_slice(), 3).map_err(|error| error.to_string())?;
                put("otlp", &format!("{name}-zstd"), &[&[how | 16][..], &packed].concat())?;
            }
        }
    }
    put("journal", "segment", &segment)
}

fn gzip(bytes: &[u8]) -> Result<Vec<u8>, String> {
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    packed.write_all(bytes).and_then(|()| packed.finish()).map_err(|error| error.to_string())
}

fn trace_stream() -> Result<(), String> {
    let mut stream = Vec::new();
    scratch::with_file(&BASES[0].bytes, |path, _| {
        let reader = Reader::open(path).map_err(|error| error.to_string())?;
        gpuwhy_store::transfer::send(&reader, None, &mut stream, &|_| true).map_err(|error| error.to_string())
    })?;
    put("trace_stream", "recording", &shortened(&stream))
}

/// Of each table one row, and an end that says so.
fn shortened(stream: &[u8]) -> Vec<u8> {
    let (mut kept, mut rest, mut before, mut rows) = (Vec::new(), stream, 0, 0);
    while let Some((head, behind)) = rest.split_first_chunk::<4>() {
        let Some((record, behind)) = behind.split_at_checked(u32::from_le_bytes(*head) as usize) else {
            break;
        };
        let kind = record.first().copied().unwrap_or_default();
        if !(kind == b'R' && before == b'R') && kind != b'E' {
            kept.extend_from_slice(&rest[..4 + record.len()]);
            rows += u32::from(kind == b'R');
        }
        (before, rest) = (kind, behind);
    }
    let end = format!("E{{\"rows\":{rows}}}");
    kept.extend((end.len() as u32).to_le_bytes());
    kept.extend(end.bytes());
    kept
}
