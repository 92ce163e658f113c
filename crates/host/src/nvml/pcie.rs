//! PCIe traffic of GPUs without GPM.
//!
//! The driver counts bytes in 32 bits, which a busy link fills in 70 ms (measured on an H200: 59 GB/s), so a difference
//! over the second between two readings says nothing. Two looks 20 ms apart do, like the driver's own measurement, but
//! the wait is shared by all GPUs.

use super::asked::Asked;
use gpuwhy_nvml::{Field, Gpu, PcieUtilCounter, field_id};
use std::thread::sleep;
use std::time::{Duration, Instant};

const SENT: Field = Field { id: field_id::NVML_FI_DEV_PCIE_COUNT_TX_BYTES, scope: 0 };
const RECEIVED: Field = Field { id: field_id::NVML_FI_DEV_PCIE_COUNT_RX_BYTES, scope: 0 };

/// Between the two looks.
const APART: Duration = Duration::from_millis(20);
/// A counter may have wrapped after this: 4 GiB at the 64 GB/s of sixteen lanes of the fifth generation take 67 ms.
const WRAPPED: Duration = Duration::from_millis(60);

/// The driver measures by waiting 20 ms for each direction and each GPU, which a reading every second must not.
const SLOW_EVERY_NS: u64 = 10_000_000_000;
/// What it measures it tells in KiB a second.
const KIB: u64 = 1024;

/// Bytes a second sent and received by the GPU.
pub(super) type Traffic = (Option<u64>, Option<u64>);

#[derive(Debug, Default)]
pub(super) struct PcieMeter {
    first: Option<Look>,
    slow_ns: Option<u64>,
}

/// The counters at one moment.
#[derive(Debug, Clone, Copy)]
struct Look {
    at: Instant,
    sent: u32,
    received: u32,
}

impl PcieMeter {
    /// The first look of a reading.
    pub(super) fn begin(&mut self, gpu: &Gpu, asked: &mut Asked) {
        self.first = look(gpu, asked);
    }

    /// The second, for which it waits where too little time has passed. From a driver without counters an answer comes
    /// every ten seconds, and nothing in between: an old figure beside new ones would be taken for a new one.
    pub(super) fn end(&mut self, now_ns: u64, gpu: &Gpu, asked: &mut Asked) -> Traffic {
        let Some(first) = self.first.take() else { return self.slow(now_ns, gpu, asked) };
        sleep(APART.saturating_sub(first.at.elapsed()));
        let Some(second) = look(gpu, asked) else { return (None, None) };
        let took = second.at - first.at;
        (per_s(first.sent, second.sent, took), per_s(first.received, second.received, took))
    }

    fn slow(&mut self, now_ns: u64, gpu: &Gpu, asked: &mut Asked) -> Traffic {
        if self.slow_ns.is_some_and(|slow_ns| now_ns.saturating_sub(slow_ns) < SLOW_EVERY_NS) {
            return (None, None);
        }
        self.slow_ns = Some(now_ns);
        let device = gpu.device();
        let sent = asked.ask("pcie sent", || device.pcie_throughput(PcieUtilCounter::Send));
        let received = asked.ask("pcie received", || device.pcie_throughput(PcieUtilCounter::Receive));
        (sent.map(|kib| u64::from(kib) * KIB), received.map(|kib| u64::from(kib) * KIB))
    }
}

fn look(gpu: &Gpu, asked: &mut Asked) -> Option<Look> {
    let answers = asked.ask("pcie counters", || gpu.fields(&[SENT, RECEIVED])?.into_iter().collect());
    let counters: Vec<u64> = answers?;
    // Their lower halves are what counts, should a driver ever give more.
    let half = |index: usize| counters.get(index).map(|counter| *counter as u32);
    Some(Look { at: Instant::now(), sent: half(0)?, received: half(1)? })
}

/// From a counter that wraps; nothing when it may have wrapped twice.
fn per_s(before: u32, now: u32, took: Duration) -> Option<u64> {
    let rose = f64::from(now.wrapping_sub(before));
    (took > Duration::ZERO && took < WRAPPED).then(|| (rose / took.as_secs_f64()) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_wrap_once_and_are_then_not_believed() {
        assert_eq!(per_s(1000, 3000, Duration::from_millis(20)), Some(100_000));
        assert_eq!(per_s(u32::MAX - 499, 500, Duration::from_millis(20)), Some(50_000));
        assert_eq!(per_s(0, 500, Duration::from_millis(61)), None);
        assert_eq!(per_s(0, 500, Duration::ZERO), None);
    }
}
