//! The end of a trace, for people: what was called, where the time went, what was not seen, where the file is.

use crate::panels::{OPERATIONS, REST, Topic, View};
use gpuwhy_agent::Summary;
use gpuwhy_cause::{CauseShare, Stall, stalls};
use gpuwhy_model::units::{count, duration, printable};
use gpuwhy_model::{Coverage, Process};
use std::io::{self, Write};

/// Operations with less excess than this share of the trace's time are not worth a line.
const WORTH_SAYING: f64 = 0.001;
const MOST_STALLS: usize = 5;
const MOST_CULPRITS: usize = 3;
/// Of a topic; the file has all.
const MOST_LINES: usize = 40;

pub(crate) fn write(summary: &Summary, out: &mut impl Write) -> io::Result<()> {
    let last = &summary.last;
    let view = View::of(last, &summary.ops, false);
    let seconds = last.now_ns.saturating_sub(last.start_ns);
    writeln!(
        out,
        "\nTraced {} of {} process{}: {} GPU calls counted, {} kept in full.",
        duration(seconds),
        count(last.processes_seen as u64),
        if last.processes_seen == 1 { "" } else { "es" },
        count(last.tallies.calls()),
        count(last.tallies.kept()),
    )?;
    if last.tallies.calls() == 0 {
        writeln!(out, "{}", nothing_seen(last.libraries))?;
    } else {
        write_panels(&view, &[OPERATIONS], out)?;
        write_stalls(&stalls(&last.tallies, &summary.ops), &last.processes, seconds, out)?;
    }
    write_panels(&view, REST, out)?;
    write_coverage(&last.coverage, out)?;
    if let Some(status) = summary.command_status.filter(|status| !status.success()) {
        writeln!(out, "The command ended with {status}.")?;
    }
    writeln!(out, "\nTrace: {}", summary.file.display())?;
    writeln!(out, "Next:  gpuwhy query {} \"SELECT * FROM op_summary\"", summary.file.display())
}

fn nothing_seen(libraries: usize) -> &'static str {
    match libraries {
        0 => {
            "No process mapped a GPU library (libcuda, libcudart, libnccl, libamdhip64). `gpuwhy check` lists what it finds."
        }
        _ => "GPU libraries were found and probed, but no traced process called them.",
    }
}

/// One topic after the other; nothing of those that have nothing to tell.
pub(crate) fn write_panels(view: &View<'_>, topics: &[Topic], out: &mut impl Write) -> io::Result<()> {
    for panel in topics.iter().filter_map(|topic| topic(view)) {
        writeln!(out)?;
        for line in panel.lines(usize::MAX, MOST_LINES) {
            writeln!(out, "{}", line.to_string().trim_end())?;
        }
    }
    Ok(())
}

/// Where the time of slow calls went, worst first.
pub(crate) fn write_stalls(
    stalls: &[Stall],
    processes: &[Process],
    trace_ns: u64,
    out: &mut impl Write,
) -> io::Result<()> {
    let worth = stalls.iter().filter(|stall| stall.excess_ns as f64 > WORTH_SAYING * trace_ns as f64);
    let mut first = true;
    for stall in worth.take(MOST_STALLS) {
        if std::mem::take(&mut first) {
            writeln!(out, "\nWhere the time beyond the usual went:")?;
        }
        let name =
            processes.iter().find(|process| process.pid == stall.pid).map_or("", |process| &process.comm);
        writeln!(
            out,
            "  {} in {} (pid {}): usually {}, p99 {}, at worst {}; {} lost in all",
            stall.op,
            printable(name),
            stall.pid,
            duration(stall.p50_ns),
            duration(stall.p99_ns),
            duration(stall.max_ns),
            duration(stall.excess_ns),
        )?;
        for cause in stall.causes.iter().filter(|cause| cause.share_pct >= 1.0) {
            writeln!(out, "    {}", cause_line(cause, stall.pid))?;
        }
    }
    Ok(())
}

fn cause_line(share: &CauseShare, own_pid: u32) -> String {
    let mut line = format!("{:>3.0}%  {:<14} {}", share.share_pct, share.cause.name(), share.cause.about());
    let culprits: Vec<String> = share
        .by
        .iter()
        .take(MOST_CULPRITS)
        .map(|by| {
            let whose = if by.pid == own_pid { "its own thread ".to_string() } else { String::new() };
            format!(
                "{whose}{} (pid {}) {} over {} waits",
                printable(&by.comm),
                by.pid,
                duration(by.ns),
                count(by.count)
            )
        })
        .collect();
    if !culprits.is_empty() {
        line.push_str(": ");
        line.push_str(&culprits.join("; "));
        if share.by.len() > MOST_CULPRITS {
            line.push_str(&format!("; {} more", share.by.len() - MOST_CULPRITS));
        }
    }
    line
}

/// What was not seen; said with every answer.
pub(crate) fn write_coverage(coverage: &Coverage, out: &mut impl Write) -> io::Result<()> {
    let counted = match coverage.degraded.is_empty() && coverage.unattached.is_empty() {
        true => "every call counted",
        false => "calls counted where and when probes were attached",
    };
    write!(out, "\nCoverage: {counted}; {} not kept in full", count(coverage.sampled))?;
    match coverage.lost {
        0 => writeln!(out, "; nothing lost.")?,
        lost => writeln!(out, "; {} records LOST (table `loss` says where).", count(lost))?,
    }
    for line in coverage.degraded.iter().take(5) {
        writeln!(out, "  degraded: {}", printable(line))?;
    }
    for line in coverage.unattached.iter().take(5) {
        writeln!(out, "  not attached: {}", printable(line))?;
    }
    Ok(())
}
