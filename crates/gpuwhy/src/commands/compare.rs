//! `gpuwhy compare`: two traces side by side, or two times of one.

use crate::chosen;
use crate::cli::CompareOptions;
use crate::failure::Failure;
use crate::summary::write_coverage;
use gpuwhy_cause::{OpChange, OpSide};
use gpuwhy_model::units::{count, duration, printable, size};
use gpuwhy_query::{Compared, Side, StepChange, compare};
use gpuwhy_store::Reader;
use std::io::{self, Write};

/// Operations in the table; JSON has all.
const MAX_ROWS: usize = 40;
/// Processes whose steps get a line.
const MAX_STEPS: usize = 16;

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
    out.flush()?;
    options.max_regression.map_or(Ok(()), |max_pct| judge(&compared, max_pct, options.json))
}

/// For CI: fails where a step is slower by more than that, beyond noise.
fn judge(compared: &Compared, max_pct: f64, json: bool) -> Result<(), Failure> {
    if compared.steps.is_empty() {
        return Err(Failure::Nothing(
            "no process has a repeating step in both traces, so none can be compared; trace for longer, or mark steps with \
             gpuwhy annotate"
                .into(),
        ));
    }
    let slower = compared.steps.iter().filter_map(|change| Some((change, change.slower_pct()?)));
    let worst = slower.filter(|(_, pct)| *pct > max_pct).max_by(|x, y| x.1.total_cmp(&y.1));
    if let Some((change, pct)) = worst {
        let grew = change.parts.first().map_or_else(String::new, |part| format!("; {part}"));
        return Err(Failure::Failed(format!(
            "the step of {} is {pct:.0}% slower, more than {max_pct}% and beyond noise: {}{grew}",
            change.name(),
            step_row(change),
        )));
    }
    if compared.steps.iter().all(|change| change.unjudged) {
        return Err(Failure::Nothing(
            "both traces have too few recorded steps to tell a slower one from noise; trace for longer"
                .into(),
        ));
    }
    if !json {
        writeln!(io::stdout(), "\nNo step is slower by more than {max_pct}% beyond noise.")?;
    }
    Ok(())
}

/// As `13.4ms median, 10.4ms before (309 and 310 steps)`.
fn step_row(change: &StepChange) -> String {
    let time = |ms: f64| duration((ms * 1e6) as u64);
    let pair = |name: &str, a: f64, b: f64| format!("{name} {} -> {}", time(a), time(b));
    format!(
        "{}, {}, {} ({} and {} steps)",
        pair("median", change.a.median_ms, change.b.median_ms),
        pair("mean", change.a.mean_ms, change.b.mean_ms),
        pair("p99", change.a.p99_ms, change.b.p99_ms),
        count(change.a.steps),
        count(change.b.steps)
    )
}

fn write_steps(steps: &[StepChange], out: &mut impl Write) -> io::Result<()> {
    for change in steps.iter().take(MAX_STEPS) {
        let verdict = match (change.unjudged, change.beyond_noise) {
            (true, _) => "too few recorded steps to judge",
            (_, true) => "beyond noise",
            (_, false) => "within noise",
        };
        let pct = format!("{:+.1}%", change.median_change_pct);
        writeln!(out, "step of {}: {pct}, {verdict}; {}", printable(&change.name()), step_row(change))?;
        if change.beyond_noise {
            for part in &change.parts {
                writeln!(out, "    {}", printable(part))?;
            }
        }
    }
    Ok(())
}

fn whole(reader: &Reader) -> Side<'_> {
    Side { reader, from_ns: None, to_ns: None }
}

/// Where one trace is cut in two.
fn split(options: &CompareOptions, reader: &Reader) -> Result<u64, Failure> {
    if let Some(time) = options.split {
        let (at, _) = chosen::times(reader, Some(time), None)?;
        return Ok(at.unwrap_or(0));
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
    write_steps(&compared.steps, out)?;
    if comparison.message.is_empty() {
        writeln!(out, "No difference is beyond noise.")?;
    } else {
        for sentence in &comparison.message {
            writeln!(out, "- {}", printable(sentence))?;
        }
    }
    writeln!(
        out,
        "\n{:<30} {:>21} {:>21} {:>21}  beyond noise",
        "operation", "calls/s  A -> B", "p50  A -> B", "p99  A -> B"
    )?;
    for change in comparison.operations.iter().take(MAX_ROWS) {
        writeln!(out, "{}", row(change))?;
    }
    let more = comparison.operations.len().saturating_sub(MAX_ROWS);
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
        format!("{} -> {}", side(&change.a), side(&change.b))
    };
    let rate = pair(|side| {
        let about = if side.calls_interval.is_some() { "~" } else { "" };
        side.calls_per_s.map_or_else(|| "?".into(), |calls| format!("{about}{}", rate(calls)))
    });
    let p50 = pair(|side| duration((side.p50_us * 1e3) as u64));
    let p99 = pair(|side| duration((side.p99_us * 1e3) as u64));
    let pct = |beyond: bool, pct: Option<f64>| pct.filter(|_| beyond).map(|pct| format!("{pct:+.0}%"));
    let message = match (
        pct(change.beyond_noise, change.p50_change_pct),
        pct(change.tail_beyond_noise, change.p99_change_pct),
    ) {
        (Some(p50), Some(p99)) => format!("p50 {p50}, p99 {p99}"),
        (Some(p50), None) => format!("p50 {p50}"),
        (None, Some(p99)) => format!("p99 {p99}"),
        (None, None) => String::new(),
    };
    format!("{:<30} {rate:>21} {p50:>21} {p99:>21}  {message}", printable(&change.op)).trim_end().to_string()
}

/// Calls a second; those that are rare with their fraction.
fn rate(per_s: f64) -> String {
    match per_s {
        rate if rate >= 10.0 => count(rate.round() as u64),
        rate if rate >= 1.0 => format!("{rate:.1}"),
        rate if rate >= 0.01 => format!("{rate:.2}"),
        rate if rate > 0.0 => "<0.01".into(),
        _ => "0".into(),
    }
}

/// The name of a counter and its values for people.
fn counter(name: &str) -> (&str, fn(f64) -> String) {
    match name {
        "sm_pct" => ("busy", |pct| format!("{pct:.0}%")),
        "sm_clock_mhz" => ("clock", |mhz| format!("{mhz:.0} MHz")),
        "memory_used_bytes" => ("memory used", |bytes| size(bytes.max(0.0) as u64)),
        "power_mw" => ("power", |mw| format!("{:.0} W", mw / 1e3)),
        "temperature_c" => ("temperature", |celsius| format!("{celsius:.0}°C")),
        other => (other, |value| format!("{value:.0}")),
    }
}

fn write_gpus(compared: &Compared, out: &mut impl Write) -> io::Result<()> {
    if compared.comparison.gpus.is_empty() {
        return Ok(());
    }
    writeln!(out)?;
    for change in &compared.comparison.gpus {
        let (name, in_words) = counter(&change.counter);
        let side = |value: Option<f64>| value.map_or_else(|| "-".into(), in_words);
        let name = format!("GPU {} {name}", change.gpu);
        writeln!(out, "{name:<30} {:>21}", format!("{} -> {}", side(change.a), side(change.b)))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rare_calls_have_a_rate_and_counters_a_unit() {
        assert_eq!([0.0, 0.004, 0.4, 1.5, 1234.4].map(rate), ["0", "<0.01", "0.40", "1.5", "1,234"]);
        for (name, value, words) in [
            ("memory_used_bytes", 1_073_741_824.0, "1.00 GiB"),
            ("power_mw", 700_000.0, "700 W"),
            ("sm_pct", 26.4, "26%"),
            ("temperature_c", 61.0, "61°C"),
        ] {
            assert_eq!(counter(name).1(value), words, "{name}");
        }
    }
}
