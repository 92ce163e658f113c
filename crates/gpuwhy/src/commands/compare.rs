//! `gpuwhy compare`: two traces side by side, or two times of one.

use crate::cli::CompareOptions;
use crate::failure::Failure;
use crate::summary::write_coverage;
use gpuwhy_cause::{OpChange, OpSide};
use gpuwhy_model::units::{count, duration, printable};
use gpuwhy_query::{Compared, Side, compare};
use gpuwhy_store::Reader;
use std::io::{self, Write};

/// Operations in the table; JSON has all.
const MOST_ROWS: usize = 40;

pub(crate) fn run(options: &CompareOptions) -> Result<(), Failure> {
    let a = Reader::open(&options.a)?;
    let compared = match &options.b {
        Some(b) => {
            let b = Reader::open(b)?;
            compare(&whole(&a), &whole(&b))?
        }
        None => {
            let split = split(options, &a)?;
            let before = Side { reader: &a, from_ns: None, to_ns: Some(split.saturating_sub(1)) };
            let after = Side { reader: &a, from_ns: Some(split), to_ns: None };
            compare(&before, &after)?
        }
    };
    let mut out = io::BufWriter::new(io::stdout().lock());
    if options.json {
        serde_json::to_writer_pretty(&mut out, &compared)?;
        writeln!(out)?;
    } else {
        write(&compared, &mut out)?;
    }
    Ok(out.flush()?)
}

fn whole(reader: &Reader) -> Side<'_> {
    Side { reader, from_ns: None, to_ns: None }
}

/// Where one trace is cut in two.
fn split(options: &CompareOptions, reader: &Reader) -> Result<u64, Failure> {
    if let Some(time) = options.split {
        return Ok(time);
    }
    let Some(since) = options.since else {
        return Err(Failure::Usage(
            "there is only one trace; give a second one, or --split TIME or --since D to compare two times of it".into(),
        ));
    };
    let newest = reader.newest_ns()?.unwrap_or(0);
    Ok(newest.saturating_sub(since.as_nanos().min(u64::MAX.into()) as u64))
}

fn write(compared: &Compared, out: &mut impl Write) -> io::Result<()> {
    for (name, side) in [("A", &compared.a), ("B", &compared.b)] {
        let length = duration(side.end_ns.saturating_sub(side.start_ns));
        writeln!(out, "{name}  {}, {length}", printable(&side.file))?;
    }
    let comparison = &compared.comparison;
    writeln!(out)?;
    if comparison.said.is_empty() {
        writeln!(out, "No difference is beyond noise.")?;
    } else {
        for sentence in &comparison.said {
            writeln!(out, "- {}", printable(sentence))?;
        }
    }
    writeln!(
        out,
        "\n{:<30} {:>21} {:>21} {:>21}  beyond noise",
        "operation", "calls/s  A > B", "p50  A > B", "p99  A > B"
    )?;
    for change in comparison.operations.iter().take(MOST_ROWS) {
        writeln!(out, "{}", row(change))?;
    }
    let more = comparison.operations.len().saturating_sub(MOST_ROWS);
    if more > 0 {
        writeln!(out, "... {more} more; --json has them all")?;
    }
    write_gpus(compared, out)?;
    for (name, side) in [("A", &compared.a), ("B", &compared.b)] {
        let coverage = &side.coverage;
        let is_whole = coverage.lost == 0
            && coverage.degraded.is_empty()
            && coverage.unattached.is_empty()
            && coverage.notes.is_empty();
        if !is_whole {
            write!(out, "\nOf {name}:")?;
            write_coverage(coverage, out)?;
        }
    }
    Ok(())
}

fn row(change: &OpChange) -> String {
    let pair = |get: fn(&OpSide) -> String| {
        let side = |side: &Option<OpSide>| side.as_ref().map_or_else(|| "-".into(), get);
        format!("{} > {}", side(&change.a), side(&change.b))
    };
    let rate = pair(|side| {
        let about = if side.calls_interval.is_some() { "about " } else { "" };
        format!("{about}{}", count(side.calls_per_s.round() as u64))
    });
    let p50 = pair(|side| duration((side.p50_us * 1e3) as u64));
    let p99 = pair(|side| duration((side.p99_us * 1e3) as u64));
    let pct = |beyond: bool, pct: Option<f64>| pct.filter(|_| beyond).map(|pct| format!("{pct:+.0}%"));
    let said = match (
        pct(change.beyond_noise, change.p50_change_pct),
        pct(change.tail_beyond_noise, change.p99_change_pct),
    ) {
        (Some(p50), Some(p99)) => format!("p50 {p50}, p99 {p99}"),
        (Some(p50), None) => format!("p50 {p50}"),
        (None, Some(p99)) => format!("p99 {p99}"),
        (None, None) => String::new(),
    };
    format!("{:<30} {rate:>21} {p50:>21} {p99:>21}  {said}", printable(&change.op)).trim_end().to_string()
}

fn write_gpus(compared: &Compared, out: &mut impl Write) -> io::Result<()> {
    if compared.comparison.gpus.is_empty() {
        return Ok(());
    }
    writeln!(out)?;
    for change in &compared.comparison.gpus {
        let side = |value: Option<f64>| value.map_or_else(|| "-".into(), |value| format!("{value:.0}"));
        let name = format!("GPU {} {}", change.gpu, change.counter);
        writeln!(out, "{name:<30} {:>21}", format!("{} > {}", side(change.a), side(change.b)))?;
    }
    Ok(())
}
