//! The ledger of one operation of one process: the time of its calls beyond what is normal, billed to causes.

use crate::attribution::Attribution;
use crate::evidence::{AttributedTime, ColdCall, OpSums};
use gpuwhy_model::{Cause, Family, OpInfo, Part, Reason, Role};

/// A call several times as long as a normal one is slow; the factor is above ordinary jitter of calls.
const TIMES_NORMAL: u64 = 8;
/// Shorter ones cannot have stalled anything.
const SLOW_FLOOR_NS: u64 = 20_000;
/// Launches of graphs differ by less than this while there is room in the queue.
const FASTEST_GRAPH: u64 = 4;
/// What a page costs besides the fault that is clocked: entering and leaving the kernel for it, which is before and after the
/// clock, and giving the page back. Measured where 4 KiB pages take 1.7 us in all, of which 1.1 us are clocked.
const BESIDE_A_FAULT_NS: u64 = 600;

#[derive(Debug)]
pub(crate) struct OpLedger<'a> {
    pub(crate) sums: &'a OpSums,
    pub(crate) info: &'a OpInfo,
    pub(crate) p50_ns: u64,
    pub(crate) slow_calls: u64,
    pub(crate) excess: Attribution,
    /// Time the host waited for the GPU in calls that are there to wait, all of it.
    pub(crate) gpu_wait_ns: u64,
}

impl<'a> OpLedger<'a> {
    pub(crate) fn new(
        sums: &'a OpSums,
        info: &'a OpInfo,
        attributed: &[&AttributedTime],
        cold: &[&ColdCall],
    ) -> OpLedger<'a> {
        let p50_ns = sums.quantile_ns(0.5);
        // Calls that were watched in slices stand for all of their operation. What a thread waited in the others is on file,
        // too, but as a wait outside of calls: so the rows themselves stay as they are.
        let factor = sums.factor();
        let scale = |number: u64| (number as f64 * factor).round() as u64;
        let attributed: Vec<AttributedTime> = attributed
            .iter()
            .map(|row| AttributedTime { ns: scale(row.ns), count: scale(row.count), ..(*row).clone() })
            .collect();
        let mut all = Attribution::default();
        for row in &attributed {
            match info.waits_for_gpu && is_woken_by_no_holder(row) {
                true => all.add(own_time(info), row.ns),
                false => all.add_attributed(row.cause, row),
            }
        }
        // What a wait is for may become known after the call: the sums of the calls are the measure.
        let seen = all.total_ns();
        all.add(Cause::Unknown, sums.sum_ns.saturating_sub(seen));
        let mut excess = all;
        take_cold(&mut excess, cold, factor);
        if info.waits_for_gpu {
            leave_to_the_gpu(&mut excess, own_time(info), sums);
        }
        let mut gpu_wait_ns = excess.ns(Cause::GpuWait);
        let normal = normal_ns(info, p50_ns).saturating_mul(sums.count);
        // A normal call computes, waits for the GPU where it is there for that, and waits for nobody.
        excess.take(own_time(info), normal);
        let faults: u64 =
            attributed.iter().filter(|row| row.cause == Cause::MemFault).map(|row| row.count).sum();
        excess.rename(Cause::CpuSelf, Cause::MemFault, faults.saturating_mul(BESIDE_A_FAULT_NS));
        if matches!(info.family, Family::Alloc | Family::Free) {
            excess.rename(Cause::CpuSelf, Cause::GpuAlloc, u64::MAX);
        }
        if !info.waits_for_gpu {
            gpu_wait_ns += attribute_full_queue(&mut excess, full_queue_ns(sums, info));
        }
        let limit = normal_ns(info, p50_ns).saturating_mul(TIMES_NORMAL).max(SLOW_FLOOR_NS);
        OpLedger {
            sums,
            info,
            p50_ns,
            slow_calls: (count_above(sums, limit) as f64 * sums.factor()) as u64,
            excess,
            gpu_wait_ns,
        }
    }

    /// Of the excess, what something took.
    pub(crate) fn taken_ns(&self) -> u64 {
        self.excess.sum_of(|cause| self.is_taken(cause))
    }

    /// Of what was taken, what was lost by it: the GPU goes on while the one who waits for it is kept from the CPU, so only
    /// what made calls longer than they normally are.
    pub(crate) fn lost_ns(&self) -> u64 {
        let taken = self.taken_ns();
        if self.info.waits_for_gpu { taken.min(self.sums.beyond_median_ns()) } else { taken }
    }

    /// Inside of a call that is there for something else, to wait for a peer or to sleep is time taken, too.
    pub(crate) fn is_taken(&self, cause: Cause) -> bool {
        let waits_for_peers = self.info.family == Family::Collective;
        cause.is_taken() || (!waits_for_peers && matches!(cause, Cause::NetWait | Cause::SelfSleep))
    }
}

/// A lock has somebody in the same process who releases it. Who sleeps in a call that is there to wait for the GPU, and is
/// woken by none of his own, waits for the GPU.
fn is_woken_by_no_holder(row: &AttributedTime) -> bool {
    row.cause == Cause::LockFutex && row.by_pid != row.pid
}

/// What the time of a call on the CPU is, as the blame rows call it.
fn own_time(info: &OpInfo) -> Cause {
    Cause::of_part(Some(info), Part::OnCpu, 0)
}

/// How long a call of this kind may take by itself: its own median, but not more than such calls take anywhere, so
/// that an operation all of whose calls are slow does not count as its own measure. Where work follows from what was
/// asked for (a module, a copy of many bytes), the median alone decides.
fn normal_ns(info: &OpInfo, p50_ns: u64) -> u64 {
    const MICROSECOND: u64 = 1_000;
    // An order of magnitude above what they take on real GPUs.
    let most = match info.family {
        Family::Launch | Family::Event | Family::Set => 50 * MICROSECOND,
        Family::Alloc => 1_000 * MICROSECOND,
        Family::Free => 500 * MICROSECOND,
        // A graph of thousands of nodes.
        Family::Graph if info.role == Role::GraphLaunch => 1_000 * MICROSECOND,
        Family::Sync
        | Family::Copy
        | Family::Graph
        | Family::Load
        | Family::Collective
        | Family::Ioctl
        | Family::Other => u64::MAX,
    };
    p50_ns.min(most)
}

/// A launch into a full queue spins until there is room: it computes nothing, it waits for the GPU. That the queue is full
/// is told by the GPU being busy then; gives what calls took longer than a normal one.
pub(crate) fn full_queue_ns(sums: &OpSums, info: &OpInfo) -> u64 {
    let normal_ns = match info.role {
        // While there is room, a launch of a graph takes about as long as its fastest.
        Role::GraphLaunch => normal_ns(info, sums.quantile_ns(0.01).saturating_mul(FASTEST_GRAPH)),
        _ => normal_ns(info, sums.quantile_ns(0.5)),
    };
    sums.busy_oncpu_ns.saturating_sub(sums.busy_count.saturating_mul(normal_ns))
}

fn attribute_full_queue(excess: &mut Attribution, longer: u64) -> u64 {
    let before = excess.ns(Cause::GpuWait);
    excess.rename(Cause::CpuSelf, Cause::GpuWait, longer);
    let waited = excess.ns(Cause::GpuWait) - before;
    excess.note(
        Cause::GpuWait,
        "the GPU was busy meanwhile: a launch into a full queue spins until there is room".into(),
    );
    waited
}

/// A lock may be how the library's own thread tells that the GPU is done: where all calls are alike, it is that; only what
/// made calls longer than they normally are was a lock.
fn leave_to_the_gpu(excess: &mut Attribution, own: Cause, sums: &OpSums) {
    let longer = sums.beyond_median_ns();
    let beside = [Cause::LockFutex, Cause::Unknown];
    let others = beside.map(|cause| (cause, excess.ns(cause)));
    let taken: u64 = others.iter().map(|(_, ns)| ns).sum();
    if taken <= longer {
        return;
    }
    let share = longer as f64 / taken as f64;
    for (cause, ns) in others {
        excess.scale(cause, share);
        excess.add(own, ns - excess.ns(cause));
    }
}

/// First launches, loads and compilations: what they computed, read and waited for in the driver is the cold start's;
/// what somebody took from them meanwhile is not.
///
/// A first launch comes once: where calls were watched in slices it stands for no other, so what it was scaled to goes.
fn take_cold(excess: &mut Attribution, cold: &[&ColdCall], factor: f64) {
    for call in cold {
        for (part, ns) in call.blame.parts() {
            let is_own = match part {
                Part::OnCpu => true,
                Part::Runnable => false,
                Part::Blocked(reason) => matches!(
                    reason,
                    Reason::Ioctl | Reason::Fault | Reason::BlockIo | Reason::File | Reason::Other
                ),
            };
            if !is_own {
                continue;
            }
            let from = [Cause::of_part(None, part, 0), Cause::Unknown, Cause::GpuWait, Cause::GpuAlloc];
            let scaled = (ns as f64 * factor).round() as u64;
            let mut left = scaled;
            for cause in from {
                left -= excess.take(cause, left);
            }
            excess.add(Cause::GpuColdstart, ns.min(scaled - left));
        }
        let what = match call.name.as_str() {
            "" => call.event.replace('_', " "),
            name => format!("{} of {name}", call.event.replace('_', " ")),
        };
        if excess.ns(Cause::GpuColdstart) > 0 {
            excess.note(
                Cause::GpuColdstart,
                format!("{what} took {}", gpuwhy_model::units::duration(call.duration_ns)),
            );
        }
    }
}

fn count_above(sums: &OpSums, limit_ns: u64) -> u64 {
    let from = gpuwhy_model::bucket_of(limit_ns) as u16;
    sums.hist.counts().iter().filter(|(bucket, _)| *bucket > from).map(|(_, n)| n).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpuwhy_model::{Blame, Histogram, Layer, OpId, Role};

    fn info(family: Family, waits_for_gpu: bool) -> OpInfo {
        OpInfo { id: OpId(1), name: "op".into(), layer: Layer::Cuda, family, waits_for_gpu, role: Role::None }
    }

    fn sums(calls: &[u64]) -> OpSums {
        let mut hist = Histogram::default();
        calls.iter().for_each(|ns| hist.record(*ns));
        OpSums {
            pid: 7,
            op: "op".into(),
            count: calls.len() as u64,
            sum_ns: calls.iter().sum(),
            max_ns: *calls.iter().max().unwrap(),
            hist,
            ..OpSums::default()
        }
    }

    fn attributed(cause: Cause, by: (u32, &str), ns: u64) -> AttributedTime {
        AttributedTime {
            pid: 7,
            tid: 7,
            op: Some("op".into()),
            cause,
            by_pid: by.0,
            by_tid: by.0,
            by_comm: by.1.into(),
            by_cgroup_id: 0,
            ns,
            count: 1,
            first_ns: 0,
            last_ns: 0,
        }
    }

    #[test]
    fn waits_are_excess_and_ordinary_computing_is_not() {
        let mut calls = vec![5_000; 99];
        calls.push(20_000_000);
        let sums = sums(&calls);
        let rows = [
            attributed(Cause::CpuSelf, (0, ""), 100 * 5_000),
            attributed(Cause::CpuPreempted, (9, "hog"), 19_995_000),
        ];
        let info = info(Family::Launch, false);
        let ledger = OpLedger::new(&sums, &info, &rows.iter().collect::<Vec<_>>(), &[]);
        assert_eq!(ledger.excess.main(), Some(Cause::CpuPreempted));
        assert_eq!(ledger.taken_ns(), 19_995_000);
        assert_eq!(ledger.slow_calls, 1);
        let shares = ledger.excess.shares(|_| None);
        assert!(shares[0].share_pct > 99.0, "{shares:?}");
        assert_eq!(shares[0].by[0].comm, "hog");
    }

    #[test]
    fn an_operation_all_of_whose_calls_burn_time_has_no_culprit() {
        let sums = sums(&[5_000_000; 50]);
        let rows = [attributed(Cause::CpuSelf, (0, ""), 250_000_000)];
        let info = info(Family::Launch, false);
        let ledger = OpLedger::new(&sums, &info, &rows.iter().collect::<Vec<_>>(), &[]);
        assert_eq!(ledger.excess.main(), Some(Cause::CpuSelf));
        assert!(ledger.excess.ns(Cause::CpuSelf) > 240_000_000);
        assert_eq!((ledger.taken_ns(), ledger.excess.explained_pct()), (0, 0.0));
    }

    #[test]
    fn small_pages_cost_more_than_the_fault_itself() {
        let sums = sums(&[2_000_000; 10]);
        let rows = [
            AttributedTime { count: 10_000, ..attributed(Cause::MemFault, (0, ""), 10_000_000) },
            AttributedTime { count: 10, ..attributed(Cause::CpuSelf, (0, ""), 10_000_000) },
        ];
        let info = info(Family::Launch, false);
        let ledger = OpLedger::new(&sums, &info, &rows.iter().collect::<Vec<_>>(), &[]);
        assert_eq!(ledger.excess.ns(Cause::MemFault), 16_000_000);
        assert!(ledger.excess.explained_pct() > 75.0);
        // A large page's price is in its fault.
        let rows = [
            AttributedTime { count: 10, ..attributed(Cause::MemFault, (0, ""), 10_000_000) },
            rows[1].clone(),
        ];
        let ledger = OpLedger::new(&sums, &info, &rows.iter().collect::<Vec<_>>(), &[]);
        assert_eq!(ledger.excess.ns(Cause::MemFault), 10_006_000);
    }

    #[test]
    fn a_sync_that_always_waits_alike_has_no_excess() {
        let sums = sums(&[10_000_000; 50]);
        let rows = [attributed(Cause::GpuWait, (0, ""), 500_000_000)];
        let info = info(Family::Sync, true);
        let ledger = OpLedger::new(&sums, &info, &rows.iter().collect::<Vec<_>>(), &[]);
        assert!(ledger.excess.total_ns() < 50_000_000, "{:?}", ledger.excess);
        assert_eq!(ledger.gpu_wait_ns, 500_000_000);
    }

    #[test]
    fn a_launch_that_spins_while_the_gpu_is_busy_waits_for_it() {
        let mut calls = vec![5_000; 50];
        calls.extend([1_400_000; 40]);
        let rows = [attributed(Cause::CpuSelf, (0, ""), calls.iter().sum())];
        let busy = OpSums { busy_count: 80, busy_oncpu_ns: 50_000_000, ..sums(&calls) };
        let info = info(Family::Launch, false);
        let ledger = OpLedger::new(&busy, &info, &rows.iter().collect::<Vec<_>>(), &[]);
        assert_eq!(ledger.excess.main(), Some(Cause::GpuWait));
        assert!(ledger.gpu_wait_ns > 45_000_000, "{}", ledger.gpu_wait_ns);
        assert_eq!(ledger.taken_ns(), 0);
        // Without the GPU's word for it nobody knows.
        let unknown = sums(&calls);
        let ledger = OpLedger::new(&unknown, &info, &rows.iter().collect::<Vec<_>>(), &[]);
        assert_eq!(ledger.excess.main(), Some(Cause::CpuSelf));
    }

    #[test]
    fn who_waits_for_the_gpu_loses_only_what_makes_the_wait_longer() {
        // Half of each wait somebody else had the CPU, and only one wait was longer for it.
        let mut calls = vec![10_000_000; 49];
        calls.push(30_000_000);
        let sums = sums(&calls);
        let rows = [
            attributed(Cause::GpuWait, (0, ""), 260_000_000),
            attributed(Cause::CpuPreempted, (9, "hog"), 260_000_000),
        ];
        let info = info(Family::Sync, true);
        let ledger = OpLedger::new(&sums, &info, &rows.iter().collect::<Vec<_>>(), &[]);
        let lost = ledger.lost_ns();
        assert!((15_000_000..25_000_000).contains(&lost), "{lost}");
        // Where the time went is divided all the same.
        assert_eq!((ledger.taken_ns(), ledger.gpu_wait_ns), (260_000_000, 260_000_000));
    }

    #[test]
    fn a_sync_that_sleeps_until_nobody_wakes_it_waits_for_the_gpu() {
        let sums = sums(&[10_000_000; 50]);
        let rows = [
            attributed(Cause::LockFutex, (0, ""), 200_000_000),
            attributed(Cause::LockFutex, (99, "bystander"), 100_000_000),
            attributed(Cause::LockFutex, (7, "worker"), 200_000_000),
        ];
        let info = info(Family::Sync, true);
        let ledger = OpLedger::new(&sums, &info, &rows.iter().collect::<Vec<_>>(), &[]);
        // All calls are alike: whoever of the library wakes it tells that the GPU is done.
        assert!(ledger.gpu_wait_ns > 480_000_000 && ledger.taken_ns() < 20_000_000, "{ledger:?}");
    }

    #[test]
    fn a_first_launch_is_a_cold_start_but_not_what_was_taken_from_it() {
        let mut calls = vec![5_000; 99];
        calls.push(300_000_000);
        let sums = sums(&calls);
        let rows = [
            attributed(Cause::CpuSelf, (0, ""), 250_495_000),
            attributed(Cause::CpuPreempted, (9, "hog"), 50_000_000),
        ];
        let cold = ColdCall {
            pid: 7,
            op: "op".into(),
            event: "first_launch".into(),
            name: "gemm".into(),
            start_ns: 0,
            duration_ns: 300_000_000,
            blame: Blame { oncpu_ns: 250_000_000, runq_ns: 50_000_000, ..Blame::default() },
            stack_id: None,
        };
        let info = info(Family::Launch, false);
        let ledger = OpLedger::new(&sums, &info, &rows.iter().collect::<Vec<_>>(), &[&cold]);
        assert_eq!(ledger.excess.ns(Cause::GpuColdstart), 250_000_000);
        assert_eq!(ledger.excess.ns(Cause::CpuPreempted), 50_000_000);
    }
}
