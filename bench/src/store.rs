//! The store alone: how many kept calls one core writes.

use crate::figures::{Figures, Limit};
use anyhow::Result;
use gpuwhy_model::{Batch, Blame, Call, Facts, Kept, Launch, OpId};
use gpuwhy_probes::{PROBES, op_infos};
use gpuwhy_store::{Options, SessionInfo, Writer};
use std::time::Instant;

const BATCH: u64 = 10_000;

pub(crate) fn measure(records: u64, figures: &mut Figures) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let session = SessionInfo { start_ns: 1, ..SessionInfo::default() };
    let ops = op_infos(PROBES);
    let mut writer =
        Writer::create_or_append(&folder.path().join("store.db"), &session, &ops, &Options::default())?;
    let mut batch = Batch { calls: (0..BATCH).map(call).collect(), ..Batch::default() };
    let began = Instant::now();
    for _ in 0..records / BATCH {
        for call in &mut batch.calls {
            call.start_ns += BATCH * 1_000;
        }
        writer.write(&batch, &Facts::default())?;
        writer.commit()?;
    }
    let seconds = began.elapsed().as_secs_f64();
    writer.finish(2)?;
    figures.add_limited("store, one core", records as f64 / seconds, "records/s", Limit::AtLeast(500_000.0));
    Ok(())
}

pub(crate) fn call(i: u64) -> Call {
    Call {
        start_ns: 1_700_000_000_000_000_000 + i * 1_000,
        duration_ns: 5_000 + i % 977,
        op: OpId(1 + (i % 8) as u16),
        pid: 4242,
        tid: 4242 + (i % 4) as u32,
        cgroup_id: 1,
        kept: Kept::Slow,
        stream: 0x7f00_dead_0000,
        handle: 0x5600_beef_0000 + (i % 64) * 64,
        caller: 0x7f11_0000_1234,
        launch: Some(Launch { grid: [128, 1, 1], block: [256, 1, 1], shared_bytes: 0 }),
        stack_id: Some((i % 128) as i64),
        blame: Blame { oncpu_ns: 5_000, runq_ns: i % 977, ..Blame::default() },
        ..Call::default()
    }
}
