//! The journal. An input is a byte and a file of the journal, or one record of it without its checksum.

use crate::Target;
use gpuwhy_fleet_core::ingest::fuzz;

pub(crate) const TARGET: Target = Target {
    name: "journal",
    about: "files and records of the write-ahead log, as a restart reads them (fleet)",
    run,
    words: &["node", "peers", "gpuwhy.rank.own_seconds"],
    runs: 10_000,
    most_bytes: 32 << 10,
};

fn run(bytes: &[u8]) {
    let Some((kind, rest)) = bytes.split_first() else { return };
    if kind & 1 == 0 {
        fuzz::segment(rest);
        return;
    }
    let Some(batch) = fuzz::batch(rest) else { return };
    let record = fuzz::record(&batch);
    let again = fuzz::batch(&record).expect("what was written is read");
    assert!(fuzz::record(&again) == record, "a record is another after it was read");
    let segment = [fuzz::frame(&record), fuzz::frame(rest)].concat();
    assert_eq!(fuzz::segment(&segment).len(), 2);
    assert_eq!(fuzz::segment(&segment[..segment.len() - 1]).len(), 1, "a torn end is left out");
}
