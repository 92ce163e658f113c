//! Records of the kernel: rings, maps, iterators and perf. An input is records, each behind its length in two bytes.

use super::Input;
use crate::Target;
use gpuwhy_probes::fuzz;

pub(crate) const TARGET: Target = Target {
    name: "ring_records",
    about: "records of the rings, values of maps, records of iterators and of perf (probes)",
    run,
    words: &["pid=", "pid='", "\0", "/libcuda.so.1"],
    runs: 20_000,
    most_bytes: 64 << 10,
};

fn run(bytes: &[u8]) {
    let mut input = Input(bytes);
    let mut records = Vec::new();
    while !input.0.is_empty() {
        let length = usize::from(input.u16());
        records.push(input.take(length));
    }
    fuzz::records(records.iter().copied());
    for (record, number) in records.iter().take(16).zip([0, 1, u64::MAX].into_iter().cycle()) {
        fuzz::values(record, number);
    }
}
