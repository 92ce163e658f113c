//! The step tree: what a step of each process is made of, where its loop waits, and how busy its GPU was.

use gpuwhy_cause::{PathPart, StepTree};
use gpuwhy_model::units::{count, duration, printable};
use gpuwhy_model::{Cause, is_of_library};
use std::io::{self, Write};

/// Processes beside the main one that get a line.
const MAX_PROCESSES: usize = 6;
const MAX_PARTS: usize = 6;
/// Parts below this are summed in the last line.
const MIN_SHARE_PCT: f64 = 2.0;
/// A part from this share on is what the loop waits for.
const MAIN_PCT: f64 = 20.0;

/// The tree of one process in full, that of the first finding where there are several; the others in a line each.
pub(crate) fn write(trees: &[StepTree], first_pid: Option<u32>, out: &mut impl Write) -> io::Result<()> {
    let loops: Vec<&StepTree> = trees.iter().filter(|tree| tree.phase == "loop").collect();
    let Some(main) = loops.iter().find(|tree| Some(tree.pid) == first_pid).or(loops.first()) else {
        return Ok(());
    };
    writeln!(out)?;
    write_tree(main, loops.len() > 1, out)?;
    if let Some(start) = trees.iter().find(|start| start.pid == main.pid && start.phase == "start") {
        writeln!(
            out,
            "{}",
            phase_line(start, &format!("before the loop: {} to start", time(start.median_ms)))
        )?;
    }
    let others = loops.iter().filter(|tree| tree.pid != main.pid);
    for tree in others.clone().take(MAX_PROCESSES) {
        let name = format!("{}[{}]", printable(tree.process.as_deref().unwrap_or("process")), tree.pid);
        let step = if tree.found_by.is_some() { " step" } else { "" };
        writeln!(out, "{}", phase_line(tree, &format!("{name}{step} {}", time(tree.mean_ms))))?;
    }
    if others.clone().count() > MAX_PROCESSES {
        writeln!(out, "and {} more processes; --json has them all", others.count() - MAX_PROCESSES)?;
    }
    Ok(())
}

fn time(ms: f64) -> String {
    duration((ms * 1e6) as u64)
}

fn write_tree(tree: &StepTree, is_one_of_many: bool, out: &mut impl Write) -> io::Result<()> {
    let name = match is_one_of_many {
        true => format!("{}[{}] ", printable(tree.process.as_deref().unwrap_or("process")), tree.pid),
        false => String::new(),
    };
    let is_count_only = tree.median_ms == tree.mean_ms && tree.p99_ms == tree.mean_ms;
    let what = match &tree.found_by {
        Some(_) if is_count_only => {
            format!("step {} on average ({} steps)", time(tree.mean_ms), count(tree.count))
        }
        Some(_) => format!(
            "step {} (median {}, p99 {}, {} steps)",
            time(tree.mean_ms),
            time(tree.median_ms),
            time(tree.p99_ms),
            count(tree.count)
        ),
        None => format!("{} of work (no repeating step was found)", time(tree.median_ms)),
    };
    let busy = match (tree.gpu_busy_pct, &tree.gpu_busy_source) {
        (Some(pct), Some(source)) => format!("   GPU busy {pct:.0}% ({source})"),
        _ => String::new(),
    };
    writeln!(out, "{name}{what}{busy}")?;
    let (shown, small): (Vec<&PathPart>, Vec<&PathPart>) =
        tree.path.iter().partition(|part| part.share_pct >= MIN_SHARE_PCT && part.process != 0);
    let shown = &shown[..shown.len().min(MAX_PARTS)];
    let rest: f64 = 100.0 - shown.iter().map(|part| part.share_pct).sum::<f64>();
    let has_rest = !small.is_empty() && rest >= 0.5;
    for (at, part) in shown.iter().enumerate() {
        let is_last = at + 1 == shown.len() && !has_rest;
        let arrow = if at == 0 && is_main(part) { "   <- the loop waits here" } else { "" };
        let branch = if is_last { "└─" } else { "├─" };
        writeln!(
            out,
            "{branch} {:>8} {:>3.0}%  {}{arrow}",
            time(part.ms),
            part.share_pct,
            part_line(part, tree.pid)
        )?;
    }
    if has_rest {
        let mean: f64 = tree.mean_ms * rest / 100.0;
        writeln!(out, "└─ {:>8} {rest:>3.0}%  small parts", time(mean))?;
    }
    Ok(())
}

/// Whether a part is what the loop waits for.
pub(crate) fn is_main(part: &PathPart) -> bool {
    part.share_pct >= MAIN_PCT && !matches!(part.class, Cause::LaunchBound | Cause::GpuWait)
}

/// What, who where it is another one, and the program's own lines.
pub(crate) fn part_line(part: &PathPart, pid: u32) -> String {
    const MAX_LINES: usize = 2;
    let mut words = printable(&part.message);
    if part.process != pid {
        words += &format!(", {}[{}]", printable(&part.thread), part.process);
    }
    if !part.parts.is_empty() {
        let threads: Vec<String> = part
            .parts
            .iter()
            .map(|thread| format!("{} {}", duration((thread.ms * 1e6) as u64), printable(&thread.thread)))
            .collect();
        return format!("{words}: {}", threads.join(", "));
    }
    let own: Vec<String> = part
        .place
        .iter()
        .filter(|line| !is_of_library(line))
        .take(MAX_LINES)
        .map(|line| short(line))
        .collect();
    match own.is_empty() {
        true => words,
        false => format!("{words:<36} {}", printable(&own.join(" < "))),
    }
}

/// Without the folders.
fn short(line: &str) -> String {
    let (file, rest) = line.split_once(':').unwrap_or((line, ""));
    format!("{}:{rest}", file.rsplit('/').next().unwrap_or(file))
}

/// A phase in a line: its largest parts.
fn phase_line(tree: &StepTree, what: &str) -> String {
    let parts: Vec<String> = tree
        .path
        .iter()
        .filter(|part| part.share_pct >= 10.0)
        .take(3)
        .map(|part| format!("{:.0}% {}", part.share_pct, printable(&part.message)))
        .collect();
    let parts = if parts.is_empty() { String::new() } else { format!(": {}", parts.join(", ")) };
    format!("{what}{parts}")
}
