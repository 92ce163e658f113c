//! Counters of the links, all of them by one call.

use super::asked::{Asked, BELIEVED_NS};
use super::rate::Rate;
use gpuwhy_nvml::{ALL_LINKS, Error, Field, Gpu, field_id::*};

/// What a counter counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum What {
    NvlinkTx,
    NvlinkRx,
    NvlinkActive,
    NvlinkErrors,
    PcieReplays,
}

/// Which fields tell it. Generations of GPUs tell the same by different fields, so they come in order of preference:
/// what the first kind that answers says is not added to what a later one does.
const ONCE: &[(What, u8, u64, u32)] = &[
    (What::NvlinkTx, 0, KIB, NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX),
    (What::NvlinkRx, 0, KIB, NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX),
    (What::NvlinkErrors, 1, 1, NVML_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL),
    (What::NvlinkErrors, 1, 1, NVML_FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_TOTAL),
    (What::NvlinkErrors, 1, 1, NVML_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL),
    (What::NvlinkErrors, 1, 1, NVML_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL),
    (What::PcieReplays, 0, 1, NVML_FI_DEV_PCIE_REPLAY_COUNTER),
];

/// Likewise, those that exist once for each NVLink. The last choices are of Blackwell.
const BY_LINK: &[(What, u8, u64, u32)] = &[
    (What::NvlinkActive, 0, 1, NVML_FI_DEV_NVLINK_GET_STATE),
    (What::NvlinkErrors, 0, 1, NVML_FI_DEV_NVLINK_ERROR_DL_REPLAY),
    (What::NvlinkErrors, 0, 1, NVML_FI_DEV_NVLINK_ERROR_DL_RECOVERY),
    (What::NvlinkErrors, 0, 1, NVML_FI_DEV_NVLINK_ERROR_DL_CRC),
    (What::NvlinkErrors, 2, 1, NVML_FI_DEV_NVLINK_COUNT_RCV_ERRORS),
    (What::NvlinkErrors, 2, 1, NVML_FI_DEV_NVLINK_COUNT_LOCAL_LINK_INTEGRITY_ERRORS),
    (What::NvlinkErrors, 2, 1, NVML_FI_DEV_NVLINK_COUNT_LINK_RECOVERY_EVENTS),
    (What::NvlinkTx, 1, 1, NVML_FI_DEV_NVLINK_COUNT_XMIT_BYTES),
    (What::NvlinkRx, 1, 1, NVML_FI_DEV_NVLINK_COUNT_RCV_BYTES),
];

const KIB: u64 = 1024;

/// More links than any GPU has, should the library tell nonsense.
const MAX_LINKS: u32 = 72;

/// One counter and what it said.
#[derive(Debug)]
struct Counter {
    what: What,
    choice: u8,
    unit: u64,
    field: Field,
    refused: bool,
    value: Option<u64>,
    per_s: Option<u64>,
    rate: Rate,
}

/// What the counters of a GPU say together: rates in bytes a second.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Counters {
    pub(super) nvlink_tx: Option<u64>,
    pub(super) nvlink_rx: Option<u64>,
    pub(super) nvlink_active: Option<u32>,
    pub(super) nvlink_total: Option<u32>,
    pub(super) nvlink_errors: Option<u64>,
    pub(super) pcie_replays: Option<u64>,
}

#[derive(Debug, Default)]
pub(super) struct CounterMeter {
    links: Option<u32>,
    counters: Vec<Counter>,
    since_ns: Option<u64>,
}

impl CounterMeter {
    pub(super) fn read(&mut self, now_ns: u64, gpu: &Gpu, asked: &mut Asked) -> Counters {
        if self.since_ns.is_none_or(|since_ns| now_ns.saturating_sub(since_ns) >= BELIEVED_NS) {
            self.since_ns = Some(now_ns);
            self.begin(link_count(gpu, asked));
        }
        let fields: Vec<Field> = self.wanted().map(|counter| counter.field).collect();
        let answers = asked.ask("fields", || gpu.fields(&fields)).unwrap_or_default();
        self.take(now_ns, answers);
        self.sum()
    }

    /// Every counter is to be asked again; the list is made anew when the number of links changed.
    fn begin(&mut self, links: Option<u32>) {
        if self.counters.is_empty() || self.links != links {
            self.links = links;
            self.counters = ONCE.iter().map(|kind| counter(kind, ALL_LINKS)).collect();
            for link in 0..links.unwrap_or(0) {
                self.counters.extend(BY_LINK.iter().map(|kind| counter(kind, link)));
            }
        }
        self.counters.iter_mut().for_each(|counter| counter.refused = false);
    }

    fn wanted(&self) -> impl Iterator<Item = &Counter> {
        self.counters.iter().filter(|counter| !counter.refused)
    }

    /// Takes the answers to what was wanted, in that order.
    fn take(&mut self, now_ns: u64, answers: Vec<Result<u64, Error>>) {
        let mut answers = answers.into_iter();
        for counter in self.counters.iter_mut().filter(|counter| !counter.refused) {
            let answer = answers.next().transpose();
            counter.refused = answer.is_err();
            counter.value = answer.ok().flatten().map(|value| value.saturating_mul(counter.unit));
            counter.per_s = counter.value.and_then(|value| counter.rate.per_s(now_ns, value));
        }
    }

    fn sum(&self) -> Counters {
        let value = |what| self.total(what, |counter| counter.value);
        let per_s = |what| self.total(what, |counter| counter.per_s);
        Counters {
            nvlink_tx: per_s(What::NvlinkTx),
            nvlink_rx: per_s(What::NvlinkRx),
            nvlink_active: value(What::NvlinkActive).map(|links| links as u32),
            nvlink_total: self.links,
            nvlink_errors: value(What::NvlinkErrors),
            pcie_replays: value(What::PcieReplays),
        }
    }

    fn total(&self, what: What, of: impl Fn(&Counter) -> Option<u64>) -> Option<u64> {
        let reported = || self.wanted().filter(|counter| counter.what == what && counter.value.is_some());
        let choice = reported().map(|counter| counter.choice).min()?;
        reported().filter(|counter| counter.choice == choice).filter_map(of).reduce(u64::saturating_add)
    }
}

fn counter(&(what, choice, unit, id): &(What, u8, u64, u32), scope: u32) -> Counter {
    let field = Field { id, scope };
    Counter { what, choice, unit, field, refused: false, value: None, per_s: None, rate: Rate::default() }
}

fn link_count(gpu: &Gpu, asked: &mut Asked) -> Option<u32> {
    let count = Field { id: NVML_FI_DEV_NVLINK_LINK_COUNT, scope: 0 };
    let links = asked.ask("link count", || gpu.fields(&[count]))?.pop()?.ok()?;
    Some((links as u32).min(MAX_LINKS))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A meter of `links` links, read with what `reported` says of a counter.
    fn read(meter: &mut CounterMeter, now_ns: u64, reported: impl Fn(u32, u32) -> Option<u64>) -> Counters {
        let answers = meter
            .wanted()
            .map(|counter| reported(counter.field.id, counter.field.scope).ok_or(Error::NotSupported))
            .collect();
        meter.take(now_ns, answers);
        meter.sum()
    }

    fn meter(links: u32) -> CounterMeter {
        let mut meter = CounterMeter::default();
        meter.begin(Some(links));
        meter
    }

    #[test]
    fn hopper_tells_sums_of_traffic_and_errors_by_link() {
        let reported = |tx_kib| {
            move |id, scope| match id {
                NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX => (scope == ALL_LINKS).then_some(tx_kib),
                NVML_FI_DEV_NVLINK_GET_STATE => Some(u64::from(scope != 3)),
                NVML_FI_DEV_NVLINK_ERROR_DL_REPLAY | NVML_FI_DEV_NVLINK_ERROR_DL_CRC => Some(2),
                NVML_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL => Some(8),
                _ => None,
            }
        };
        let mut meter = meter(4);
        let first = read(&mut meter, 1_000_000_000, reported(100));
        assert_eq!(first.nvlink_tx, None);
        assert_eq!((first.nvlink_active, first.nvlink_total), (Some(3), Some(4)));
        assert_eq!(first.nvlink_errors, Some(16), "the total of the older field is not added");
        let second = read(&mut meter, 2_000_000_000, reported(110));
        assert_eq!((second.nvlink_tx, second.nvlink_rx), (Some(10 * KIB), None));
    }

    #[test]
    fn blackwell_tells_bytes_by_link() {
        let reported = |bytes| {
            move |id, scope: u32| match id {
                NVML_FI_DEV_NVLINK_COUNT_RCV_BYTES => Some(bytes * u64::from(scope + 1)),
                NVML_FI_DEV_NVLINK_COUNT_LINK_RECOVERY_EVENTS => Some(1),
                _ => None,
            }
        };
        let mut meter = meter(2);
        read(&mut meter, 1_000_000_000, reported(0));
        let counters = read(&mut meter, 3_000_000_000, reported(1000));
        assert_eq!((counters.nvlink_rx, counters.nvlink_errors), (Some(1500), Some(2)));
    }

    #[test]
    fn a_gpu_without_links_tells_none() {
        let mut meter = CounterMeter::default();
        meter.begin(None);
        assert_eq!(read(&mut meter, 1, |_, _| None), Counters::default());
        assert_eq!(meter.wanted().count(), 0, "what was refused is not asked again");
        meter.begin(None);
        assert_eq!(meter.wanted().count(), ONCE.len(), "until a while has passed");
    }
}
