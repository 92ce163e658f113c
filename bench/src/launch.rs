//! What one traced launch costs: untraced, empty probe pairs and gpuwhy in turn within one run, so that the machine's
//! moods hit all alike.

use crate::figures::{Figures, Limit, median};
use crate::workload::Workload;
use anyhow::{Result, anyhow};
use gpuwhy_probes::{EmptyProbe, Engine, Features, Flavour, ProgramClock, ProgramStats, Settings};

use std::path::Path;

const LAUNCHES: u64 = 100_000;

pub(crate) fn measure(workload: &Workload, rounds: usize, figures: &mut Figures) -> Result<()> {
    let library = workload.path("libcuda.so.1");
    let empty =
        |flavour| EmptyProbe::on_function(flavour, &library, "cuLaunchKernel").map_err(|e| anyhow!(e));
    let session = Features::probe().best() == Ok(Flavour::Session);
    let (mut untraced, mut pair, mut one, mut traced) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    workload.launch_ns(LAUNCHES)?;
    for _ in 0..rounds {
        untraced.push(workload.launch_ns(LAUNCHES)?);
        {
            let _probe = empty(Flavour::Multi)?;
            pair.push(workload.launch_ns(LAUNCHES)?);
        }
        if session {
            let _probe = empty(Flavour::Session)?;
            one.push(workload.launch_ns(LAUNCHES)?);
        }
        let _engine = attached(workload)?;
        traced.push(workload.launch_ns(LAUNCHES)?);
    }
    let base = median(&mut untraced);
    let added = |values: &mut Vec<f64>| median(values) - base;
    let (pair, traced) = (added(&mut pair), added(&mut traced));
    figures.add("launch, untraced", base, "ns");
    figures.add("  an empty uprobe+uretprobe pair adds", pair, "ns");
    if session {
        figures.add("  an empty session probe adds", added(&mut one), "ns");
    }
    figures.add("  gpuwhy adds", traced, "ns");
    figures.add_limited("gpuwhy over an empty pair", traced / pair, "times", Limit::AtMost(1.5));
    run_times(workload, figures)
}

/// Keeps an empty uprobe+uretprobe pair on the launches of a real driver library until standard input ends: the floor
/// for measurements with real programs.
pub(crate) fn hold_empty(library: &Path) -> Result<()> {
    let _probes = ["cuLaunchKernel", "cuLaunchKernelEx"]
        .map(|symbol| EmptyProbe::on_function(Flavour::Multi, library, symbol).map_err(|e| anyhow!(e)))
        .into_iter()
        .collect::<Result<Vec<_>>>()?;
    println!("ready");
    std::io::stdin().lines().for_each(drop);
    Ok(())
}

/// Run time of the programs themselves, with the kernel's clock on them.
fn run_times(workload: &Workload, figures: &mut Figures) -> Result<()> {
    let _clock = ProgramClock::start()?;
    let library = workload.path("libcuda.so.1");
    {
        let probe =
            EmptyProbe::on_function(Flavour::Multi, &library, "cuLaunchKernel").map_err(|e| anyhow!(e))?;
        workload.launch_ns(LAUNCHES)?;
        figures.add("BPF run time a launch, empty pair", per_launch(&probe.stats()), "ns");
    }
    let engine = attached(workload)?;
    workload.launch_ns(LAUNCHES)?;
    let stats = engine.program_stats();
    let calls: Vec<ProgramStats> = stats.iter().filter(|stat| stat.probe == "cuda").cloned().collect();
    figures.add("BPF run time a launch, gpuwhy", per_launch(&calls), "ns");
    for stat in stats.iter().filter(|stat| stat.runs > 0) {
        let each = stat.run_ns as f64 / stat.runs as f64;
        figures.add_with_note(
            format!("  {} {}", stat.probe, stat.program),
            each,
            "ns a run",
            format!("{} runs", stat.runs),
        );
    }
    Ok(())
}

fn per_launch(stats: &[ProgramStats]) -> f64 {
    stats.iter().map(|stat| stat.run_ns).sum::<u64>() as f64 / LAUNCHES as f64
}

fn attached(workload: &Workload) -> Result<Engine> {
    let mut engine = Engine::load(&Settings::default())?;
    for file in workload.libraries()? {
        engine.attach_library(&file);
    }
    Ok(engine)
}
