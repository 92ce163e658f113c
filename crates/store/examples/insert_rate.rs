//! How many kept calls a second one core can write: `cargo run --release --example insert_rate [CALLS] [FILE]`.

use gpuwhy_model::{
    Batch, Blame, Call, Direction, Facts, Family, Kept, Launch, Layer, LibraryInfo, OpId, OpInfo, Role,
};
use gpuwhy_store::{Options, SessionInfo, Writer};
use std::path::PathBuf;
use std::time::{Duration, Instant};

const BATCH: usize = 8192;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let total: usize = arguments.next().map_or(Ok(2_000_000), |text| text.parse())?;
    let folder = tempfile::tempdir()?;
    let path = arguments.next().map_or_else(|| folder.path().join("trace.db"), PathBuf::from);
    let ops: Vec<OpInfo> = (1..=12)
        .map(|id| OpInfo {
            id: OpId(id),
            name: format!("cuOp{id}"),
            layer: Layer::Cuda,
            family: Family::Launch,
            waits_for_gpu: false,
            role: Role::Launch,
        })
        .collect();
    let session = SessionInfo { start_ns: 1_790_000_000_000_000_000, ..SessionInfo::default() };
    let mut writer = Writer::create_or_append(&path, &session, &ops, &Options::default())?;
    let library = |number| LibraryInfo { number, kind: "libcuda".into(), file: format!("/lib/{number}") };
    let libraries = Batch { libraries: vec![library(1)], ..Batch::default() };
    writer.write(&libraries, &Facts::default())?;
    let mut seed = 88_172_645_463_325_252;
    let mut spent = Duration::ZERO;
    let mut since_commit = Duration::ZERO;
    let mut written = 0;
    while written < total {
        let first = session.start_ns + written as u64 * 1400;
        let calls = (0..BATCH).map(|i| call(first + i as u64 * 1400, &mut seed)).collect();
        let batch = Batch { calls, ..Batch::default() };
        let begin = Instant::now();
        writer.write(&batch, &Facts::default())?;
        if since_commit > Duration::from_millis(300) {
            writer.commit()?;
            since_commit = Duration::ZERO;
        }
        spent += begin.elapsed();
        since_commit += begin.elapsed();
        written += BATCH;
    }
    let begin = Instant::now();
    writer.commit()?;
    spent += begin.elapsed();
    writer.finish(session.start_ns + written as u64 * 1400)?;
    let bytes = std::fs::metadata(&path)?.len();
    println!(
        "{:.0} calls/s, {} bytes a call ({written} calls in {:.2} s)",
        written as f64 / spent.as_secs_f64(),
        bytes / written as u64,
        spent.as_secs_f64()
    );
    Ok(())
}

/// A call like those of a training loop: half of them launches, a few sampled, not quite in order of time.
fn call(time_ns: u64, seed: &mut u64) -> Call {
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    let r = *seed;
    let duration_ns = 2_000 + (r >> 8) % 50_000;
    let mut blame = Blame { oncpu_ns: duration_ns, ..Blame::default() };
    if r.is_multiple_of(4) {
        blame.oncpu_ns -= duration_ns / 10;
        blame.runq_ns = duration_ns / 10;
    }
    let pid = 4000 + (r >> 24) as u32 % 4;
    Call {
        start_ns: time_ns - r % 20_000,
        duration_ns,
        op: OpId(1 + (r >> 20) as u16 % 12),
        pid,
        tid: pid + (r >> 26) as u32 % 8,
        cgroup_id: 7431,
        kept: [Kept::Slow, Kept::Sample, Kept::Rare][(r >> 30) as usize % 3],
        sample_weight: if r.is_multiple_of(8) { 100 } else { 0 },
        ret: 0,
        bytes: if r.is_multiple_of(3) { 4096 } else { 0 },
        stream: 0x7f00_1234_0000,
        handle: 0x7f00_aa00_0000 + (r >> 33) % 256 * 64,
        aux: 0,
        name: None,
        direction: r.is_multiple_of(16).then_some(Direction::HostToDevice),
        capture: 0,
        device: Some((pid % 4) as u16),
        library: 1,
        first: r.is_multiple_of(4096),
        caller: 0x7f11_aa00_0000 + (r >> 40) % 64 * 5,
        via: None,
        launch: r.is_multiple_of(2).then(|| Launch {
            grid: [128 + (r >> 50) as u32 % 64, 1, 1],
            block: [256, 1, 1],
            shared_bytes: 0,
        }),
        stack_id: None,
        stack_key: 0,
        blame,
    }
}
