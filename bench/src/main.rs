//! What gpuwhy costs, measured: a traced launch against an empty probe pair and against none, the programs' run time,
//! records through ring, decode and store, attach and detach, memory. One table, and JSON for those who compare.

mod export;
mod figures;
mod governor;
mod late;
mod launch;
mod lifecycle;
mod pipeline;
mod questions;
mod store;
mod syscall;
mod workload;

use anyhow::{Context, Result};
use figures::Figures;
use std::path::PathBuf;
use workload::Workload;

fn main() -> Result<()> {
    if std::env::args().nth(1).as_deref() == Some("hold-empty") {
        return launch::hold_empty(
            std::env::args_os().nth(2).map(PathBuf::from).unwrap_or_default().as_path(),
        );
    }
    if std::env::args().nth(1).as_deref() == Some("questions") {
        let mut figures = Figures::new();
        questions::measure(10_000_000, &mut figures)?;
        figures.print();
        return Ok(());
    }
    let out = std::env::args_os().nth(1).map_or_else(|| PathBuf::from("bench/out/bench.json"), PathBuf::from);
    let quick = std::env::var_os("GPUWHY_BENCH_QUICK").is_some();
    let workload = Workload::unpack().context("the simulated GPU could not be unpacked")?;
    let mut figures = Figures::new();
    // GPUWHY_BENCH_ONLY=export measures that alone.
    let only = std::env::var("GPUWHY_BENCH_ONLY").ok();
    let wanted = |name: &str, about: &str| {
        let wanted = only.as_deref().is_none_or(|only| only == name);
        if wanted {
            eprintln!("{about} ...");
        }
        wanted
    };
    if wanted("launch", "cost of a traced launch") {
        launch::measure(&workload, if quick { 4 } else { 12 }, &mut figures)?;
    }
    if wanted("pipeline", "records through ring, decode and store") {
        pipeline::measure(&workload, if quick { 2 } else { 5 }, &mut figures)?;
    }
    if wanted("lifecycle", "attach, detach, memory") {
        lifecycle::measure(&workload, &mut figures)?;
    }
    if wanted("late", "libraries loaded late") {
        late::measure(&workload, if quick { 2 } else { 5 }, &mut figures)?;
    }
    if wanted("governor", "the worst case within a budget") {
        governor::measure(&workload, if quick { 1 } else { 3 }, &mut figures)?;
    }
    if wanted("syscall", "a system call") {
        syscall::measure(if quick { 3 } else { 7 }, &mut figures)?;
    }
    if wanted("store", "store alone") {
        store::measure(if quick { 500_000 } else { 2_000_000 }, &mut figures)?;
    }
    if wanted("export", "exports") {
        export::measure(if quick { 200_000 } else { 1_000_000 }, 3, &mut figures)?;
    }
    if wanted("questions", "questions of a large trace") {
        questions::measure(if quick { 1_000_000 } else { 10_000_000 }, &mut figures)?;
    }
    figures.print();
    if let Some(folder) = out.parent() {
        std::fs::create_dir_all(folder)?;
    }
    std::fs::write(&out, serde_json::to_string_pretty(&figures)?)?;
    eprintln!("written to {}", out.display());
    if figures.all_hold() { Ok(()) } else { anyhow::bail!("some figures are beyond their limits") }
}
