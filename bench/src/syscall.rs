//! What the driver probe costs those who never touch the driver: with a system call's tracepoint on, the kernel takes
//! every system call of the host the longer way.

use crate::figures::{Figures, median};
use anyhow::Result;
use gpuwhy_probes::{Engine, Settings};
use std::time::Instant;

const CALLS: u32 = 2_000_000;

pub(crate) fn measure(rounds: usize, figures: &mut Figures) -> Result<()> {
    let (mut plain, mut without, mut with) = (Vec::new(), Vec::new(), Vec::new());
    let mut other = Settings::default();
    other.probes.retain(|probe| probe.name != "driver");
    for _ in 0..rounds {
        plain.push(call_ns());
        {
            let _engine = Engine::load(&other)?;
            without.push(call_ns());
        }
        let _engine = Engine::load(&Settings::default())?;
        with.push(call_ns());
    }
    let (plain, without, with) = (median(&mut plain), median(&mut without), median(&mut with));
    figures.add("a system call (getppid), untraced", plain, "ns");
    figures.add("  traced without the driver probe", without, "ns");
    figures.add("  traced with it", with, "ns");
    Ok(())
}

fn call_ns() -> f64 {
    let began = Instant::now();
    for _ in 0..CALLS {
        std::hint::black_box(std::os::unix::process::parent_id());
    }
    began.elapsed().as_secs_f64() * 1e9 / f64::from(CALLS)
}
