//! The GPUs: a line each, and one more for what is not as it should be.

use super::panel::{Panel, bad, odd, plain};
use super::view::View;
use super::words::{percent, rate};
use gpuwhy_agent::{GpuSum, Spread};
use gpuwhy_model::GpuSample;
use gpuwhy_model::units::{count, printable};
use ratatui::text::Line;

const GIB: f64 = (1u64 << 30) as f64;

pub(super) fn panel(view: &View<'_>) -> Option<Panel> {
    let gpus = &view.overview.gpus;
    let monitored = gpus.values().any(|gpu| gpu.sm_active_pct.count > 0);
    let mut panel = Panel::new("GPU", "gpu_samples").column("SM");
    if monitored {
        panel = panel.column("active").column("tensor").column("DRAM");
    }
    panel = panel.column("memory").column("power").column("temp");
    let linked = gpus.values().any(|gpu| gpu.last.nvlink_rx_bytes_per_s.is_some());
    if view.live {
        panel = panel.column("clock").spare(3).column("PCIe in, out").spare(2);
        panel = if linked { panel.column("NVLink in, out").spare(1) } else { panel };
    }
    for gpu in gpus.values() {
        let mut cells = vec![plain(name(&gpu.last)), share(view, gpu.last.sm_pct, gpu.sm_pct)];
        if monitored {
            let now = [gpu.last.sm_active_pct, gpu.last.tensor_active_pct, gpu.last.dram_active_pct];
            let means =
                [gpu.sm_active_pct, gpu.tensor_active_pct, gpu.dram_active_pct].map(|spread| spread.mean());
            let shares = if view.live { now } else { means };
            cells.extend(shares.map(|share| reported(share, |share| format!("{share:.0}%"))));
        }
        match view.live {
            true => cells.extend(now(&gpu.last).into_iter().take(if linked { 6 } else { 5 })),
            false => cells.extend(whole(gpu)),
        }
        panel.row(cells);
        for note in notes(view, gpu) {
            panel.note(note);
        }
    }
    panel.if_any()
}

fn name(sample: &GpuSample) -> String {
    let model = printable(&sample.name);
    let part = sample.mig.as_ref().map(|mig| format!(" MIG {}", printable(mig))).unwrap_or_default();
    format!("{} {}{part}", sample.gpu, model.strip_prefix("NVIDIA ").unwrap_or(&model))
}

/// Now, or on average and at most.
fn share(view: &View<'_>, now: Option<f64>, spread: Spread) -> Line<'static> {
    match (view.live, now, spread.mean()) {
        (true, Some(now), _) => plain(format!("{now:.0}%")),
        (false, _, Some(mean)) => plain(format!("{mean:.0}% (max {:.0})", spread.max)),
        _ => plain(""),
    }
}

fn reported<T>(value: Option<T>, write: impl Fn(T) -> String) -> Line<'static> {
    plain(value.map(write).unwrap_or_default())
}

fn now(sample: &GpuSample) -> [Line<'static>; 6] {
    let memory = sample.memory_used_bytes.map(|used| used as f64 / GIB);
    let power = sample.power_mw.map(|power| power as f64 / 1e3);
    [
        reported(memory, |used| format!("{used:.1}{} GiB", of(sample.memory_total_bytes, GIB))),
        reported(power, |watts| format!("{watts:.0}{} W", of(sample.power_limit_mw, 1e3))),
        reported(sample.temperature_c, |degrees| format!("{degrees}°C")),
        reported(sample.sm_clock_mhz, |clock| {
            format!("{clock}{} MHz", of(sample.sm_clock_max_mhz.map(u64::from), 1.0))
        }),
        reported(sample.pcie_rx_bytes_per_s.zip(sample.pcie_tx_bytes_per_s), both_ways),
        reported(sample.nvlink_rx_bytes_per_s.zip(sample.nvlink_tx_bytes_per_s), both_ways),
    ]
}

fn both_ways((rx, tx): (u64, u64)) -> String {
    format!("{}, {}", rate(rx), rate(tx))
}

fn of(limit: Option<u64>, unit: f64) -> String {
    limit.map(|limit| format!("/{:.0}", limit as f64 / unit)).unwrap_or_default()
}

fn whole(gpu: &GpuSum) -> [Line<'static>; 3] {
    let most = |spread: Spread, unit: f64| spread.mean().map(|_| spread.max / unit);
    let memory = most(gpu.memory_used_bytes, GIB);
    [
        reported(memory, |used| format!("max {used:.1}{} GiB", of(gpu.last.memory_total_bytes, GIB))),
        reported(gpu.power_mw.mean(), |mean| {
            format!("{:.0} W (max {:.0})", mean / 1e3, gpu.power_mw.max / 1e3)
        }),
        reported(most(gpu.temperature_c, 1.0), |degrees| format!("max {degrees:.0}°C")),
    ]
}

/// What is not as it should be.
fn notes(view: &View<'_>, gpu: &GpuSum) -> Vec<Line<'static>> {
    let mut notes = Vec::new();
    let mut add = |line: Line<'static>| notes.push(line);
    let held_down = held_down(view, gpu);
    if !held_down.is_empty() {
        add(bad(format!("  clocks held down by {}", held_down.join(", "))));
    }
    let below = |now: Option<u32>, max: Option<u32>| now.zip(max).filter(|(now, max)| now < max);
    let sample = &gpu.last;
    // An idle link saves power.
    let works = sample.sm_pct.is_some_and(|share| share > 0.0);
    if let Some((now, max)) = below(sample.pcie_generation, sample.pcie_generation_max).filter(|_| works) {
        add(odd(format!("  PCIe generation {now}, could be {max}")));
    }
    if let Some((now, max)) = below(sample.pcie_width, sample.pcie_width_max) {
        add(odd(format!("  PCIe with {now} lanes, could be {max}")));
    }
    if let Some((now, max)) = below(sample.nvlink_active, sample.nvlink_total) {
        add(odd(format!("  {now} of {max} NVLinks up")));
    }
    for (counter, name) in COUNTERS {
        let (total, rise) = (counter(sample).unwrap_or(0), gpu.rise(*counter));
        if rise > 0 {
            add(bad(format!("  {} {name}, {} of them in this trace", count(total), count(rise))));
        } else if total > 0 {
            add(odd(format!("  {} {name} before this trace", count(total))));
        }
    }
    notes
}

/// The reasons now, or all there were and how often.
fn held_down(view: &View<'_>, gpu: &GpuSum) -> Vec<String> {
    if view.live {
        return gpu.last.throttle_reasons.iter().map(|reason| printable(reason)).collect();
    }
    let often = |(reason, samples): (&String, &u64)| {
        format!("{} in {} of the samples", printable(reason), percent(*samples, gpu.samples))
    };
    gpu.throttled.iter().map(often).collect()
}

type Counter = fn(&GpuSample) -> Option<u64>;

const COUNTERS: &[(Counter, &str)] = &[
    (|sample| sample.ecc_uncorrected, "memory errors (ECC) not corrected"),
    (|sample| sample.ecc_corrected, "memory errors (ECC) corrected"),
    (|sample| sample.nvlink_errors, "NVLink errors"),
    (|sample| sample.pcie_replays, "PCIe replays"),
];
