//! How the program is built: copies, launches and graphs that take more than what they do for it. And its data.

use super::draw::Draw;
use super::setup::{Fault, Limit, Program, Setup, words};
use super::{Culprit, Hit, Scenario};
use crate::reasons::device_below;

pub(super) const SCENARIOS: &[Scenario] = &[
    Scenario {
        number: 7,
        name: "slow disk in the data loader",
        quick: false,
        set: slow_disk,
        hit: Hit::Between,
        classes: &["io.block"],
        culprit: Culprit::NotJudged,
        explained: true,
    },
    Scenario {
        number: 12,
        name: "copy bound",
        quick: false,
        set: copies,
        hit: Hit::Op("cudaMemcpy"),
        classes: &["copy.pcie"],
        culprit: Culprit::NotJudged,
        explained: true,
    },
    Scenario {
        number: 13,
        name: "launch bound",
        quick: false,
        set: launches,
        hit: Hit::Op("cuLaunchKernel"),
        classes: &["launch.bound"],
        culprit: Culprit::NotJudged,
        explained: true,
    },
    Scenario {
        number: 14,
        name: "graph re-capture storm",
        quick: true,
        set: recaptures,
        hit: Hit::Anywhere,
        classes: &["graph.recapture"],
        culprit: Culprit::NotJudged,
        explained: true,
    },
];

fn slow_disk(draw: &mut Draw) -> Setup {
    let bytes_per_s = draw.between(2, 12) << 20;
    let batch = draw.between(64, 512) << 10;
    let file = Setup::file(16 << 20);
    let (launches, kernel_us) = (draw.between(5, 30), draw.between(5, 100));
    let words_of_cold = words("--cached 0");
    let words = words(&format!(
        "train --steps 0 --seconds 3 --launches-per-step {launches} --kernel-us {kernel_us} --data {} --data-bytes {batch} --cached 1",
        file.path()
    ));
    // Where there is no disk to limit, the cgroup cannot be made, and that is said.
    let disk = device_below(file.0.path()).map_or_else(|| "no disk".into(), |(_, disk)| disk);
    let limit = Limit {
        controller: "blkio",
        version_1: vec![("blkio.throttle.read_bps_device", format!("{disk} {bytes_per_s}"))],
        version_2: vec![("io.max", format!("{disk} rbps={bytes_per_s}"))],
    };
    Setup {
        words,
        _file: Some(file),
        fault: Fault { words: words_of_cold, limit: Some(limit), ..Fault::default() },
        ..Setup::default()
    }
}

/// Large copies from pageable memory, over a link that is slow for them.
fn copies(draw: &mut Draw) -> Setup {
    let (launches, kernel_us) = (draw.between(5, 30), draw.between(5, 50));
    let rate = draw.between(2, 12) * 1_000_000_000;
    let bytes = draw.between(8, 64) << 20;
    Setup {
        words: words(&format!(
            "train --steps 0 --seconds 2 --pageable --copy-bytes 16K --launches-per-step {launches} --kernel-us {kernel_us}"
        )),
        env: vec![("SIMGPU_COPY_BYTES_PER_S", rate.to_string())],
        fault: Fault { words: words(&format!("--copy-bytes {bytes}")), ..Fault::default() },
        ..Setup::default()
    }
}

/// Kernels that are over before Python has launched the next one.
fn launches(draw: &mut Draw) -> Setup {
    let launches = draw.between(50, 500);
    Setup {
        program: Program::Python,
        words: words(&format!(
            "train --steps 0 --seconds 2 --copy-bytes 0 --launches-per-step {launches} --kernel-us {}",
            draw.between(100, 300)
        )),
        fault: Fault { words: words(&format!("--kernel-us {}", draw.between(1, 2))), ..Fault::default() },
        ..Setup::default()
    }
}

/// Shapes change, and the graph is captured again.
fn recaptures(draw: &mut Draw) -> Setup {
    let (nodes, kernel_us, every) = (draw.between(10, 100), draw.between(1, 20), draw.between(1, 3));
    Setup {
        words: words(&format!(
            "graph --replays {} --nodes {nodes} --kernel-us {kernel_us}",
            draw.between(800, 2_000)
        )),
        fault: Fault { words: words(&format!("--recapture-every {every}")), ..Fault::default() },
        ..Setup::default()
    }
}
