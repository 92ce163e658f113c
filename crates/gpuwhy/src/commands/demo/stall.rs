//! The end of a scenario with a fault: what, why, who and what to do, on one screen.

use super::Played;
use crate::failure::Failure;
use crate::summary::write_coverage;
use gpuwhy_cause::stalls;
use gpuwhy_model::units::{count, duration, printable};
use std::io::Write;

pub(crate) fn write(
    op: &str,
    fix: fn(u32, u32) -> String,
    played: &Played,
    out: &mut impl Write,
) -> Result<(), Failure> {
    let stalls = stalls(&played.tallies, &played.ops);
    let Some(stall) = stalls.iter().find(|stall| stall.op == op) else {
        return Err(Failure::Nothing(format!("no stall of {op} was seen; the host may be too busy")));
    };
    let name = |pid: u32| {
        played.processes.iter().find(|process| process.pid == pid).map_or("", |process| process.comm.as_str())
    };
    writeln!(
        out,
        "\nWHAT  {} in {} (pid {}) usually takes {}; its p99 was {}, its worst {}.\n      {} calls lost {} beyond the usual.",
        stall.op,
        printable(name(stall.pid)),
        stall.pid,
        duration(stall.p50_ns),
        duration(stall.p99_ns),
        duration(stall.max_ns),
        count(stall.calls),
        duration(stall.excess_ns),
    )?;
    for (i, cause) in stall.causes.iter().filter(|cause| cause.share_pct >= 1.0).enumerate() {
        let label = if i == 0 { "WHY" } else { "" };
        writeln!(
            out,
            "{label:<5} {:>3.0}% {:<14} {}",
            cause.share_pct,
            cause.cause.name(),
            cause.cause.about()
        )?;
        for by in cause.by.iter().take(3) {
            writeln!(
                out,
                "{:>11}by {} (pid {}): {} in {} waits",
                "",
                printable(&by.comm),
                by.pid,
                duration(by.ns),
                count(by.count)
            )?;
        }
    }
    let culprit = stall.causes.first().and_then(|cause| cause.by.first()).map_or(0, |by| by.pid);
    writeln!(out, "FIX   {}", fix(stall.pid, culprit))?;
    write_coverage(&played.coverage, out)?;
    let file = played.file.display();
    writeln!(
        out,
        "\nGo on with:\n  gpuwhy query {file} \"SELECT * FROM op_summary\"\n  gpuwhy query {file} \"SELECT op, cause, by_comm, \
         by_pid, round(sum(ns)/1e6, 1) AS ms FROM blame WHERE op <> '' GROUP BY 1,2,3,4 ORDER BY ms DESC LIMIT 10\"\n  \
         gpuwhy query {file} --op {} --limit 10",
        stall.op
    )?;
    Ok(())
}
