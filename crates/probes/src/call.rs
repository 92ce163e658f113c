//! Call records and call sums: raw bytes to the model's values.

use crate::raw::{cuda as raw, read, text};
use gpuwhy_model::{Blame, Call, CallWindow, Direction, Histogram, Kept, Launch, OpId, Reason};

/// As in `bpf/kernel.h`.
pub(crate) const WINDOW_NS: u64 = 500_000_000;

/// A kept call.
pub(crate) fn decode(bytes: &[u8], clock_offset_ns: u64) -> Option<Call> {
    let record: raw::call_record = read(bytes)?;
    let mut call = decode_call(&record, clock_offset_ns)?;
    if u32::from(record.head.kind) == raw::RECORD_CALL_NAMED {
        call.name = decode_name(bytes);
    }
    Some(call)
}

fn decode_call(record: &raw::call_record, clock_offset_ns: u64) -> Option<Call> {
    Some(Call {
        start_ns: record.head.time_ns.wrapping_add(clock_offset_ns),
        duration_ns: record.duration_ns,
        op: OpId(record.op),
        pid: record.head.tgid,
        tid: record.head.tid,
        cgroup_id: record.head.cgroup_id,
        kept: match u32::from(record.kept) {
            raw::KEPT_ERROR => Kept::Error,
            raw::KEPT_SLOW => Kept::Slow,
            raw::KEPT_SAMPLE => Kept::Sample,
            raw::KEPT_RARE => Kept::Rare,
            raw::KEPT_ALL => Kept::All,
            raw::KEPT_STATE => Kept::State,
            _ => return None,
        },
        sample_weight: record.sample_weight,
        ret: record.ret,
        bytes: record.bytes,
        stream: record.stream,
        handle: record.handle,
        aux: record.aux,
        name: None,
        direction: decode_direction(record.direction),
        capture: record.capture,
        device: record.device_next.checked_sub(1).and_then(|device| u16::try_from(device).ok()),
        library: record.library,
        first: record.first != 0,
        caller: record.caller,
        via: None,
        launch: (record.launch.known != 0).then_some(Launch {
            grid: record.launch.grid,
            block: record.launch.block,
            shared_bytes: record.launch.shared_bytes,
        }),
        stack_id: None,
        stack_key: record.stack_key,
        blame: Blame { oncpu_ns: record.oncpu_ns, runq_ns: record.runq_ns, blocked_ns: record.blocked_ns },
    })
}

/// Nothing where the kernel says so by a value of its own.
pub(crate) fn known_or<T: PartialEq + Copy>(value: T, unknown: T) -> Option<T> {
    (value != unknown).then_some(value)
}

fn decode_direction(number: u8) -> Option<Direction> {
    Direction::ALL.get(usize::from(number).checked_sub(1)?).copied()
}

/// As far as the kernel read it; user space reads on where it is longer.
fn decode_name(bytes: &[u8]) -> Option<String> {
    let record: raw::call_named_record = read(bytes)?;
    (record.name_bytes > 1).then(|| text(&record.name))
}

/// Where the name of a record goes on, if it did not fit.
pub(crate) fn longer_name_at(bytes: &[u8]) -> Option<u64> {
    let record: raw::call_named_record = read(bytes)?;
    (record.name_bytes >= record.name.len() as i64).then_some(record.name_at)
}

/// The sums of one thread, operation and window.
pub(crate) fn decode_window(key: &raw::window_key, value: &[u8], clock_offset_ns: u64) -> Option<CallWindow> {
    let sum: raw::window_sum = read(value)?;
    let waited_ns = sum.blocked_ns.iter().fold(sum.runq_ns, |waited, ns| waited.saturating_add(*ns));
    Some(CallWindow {
        window_start_ns: (u64::from(key.window) * WINDOW_NS).wrapping_add(clock_offset_ns),
        window_ns: WINDOW_NS,
        pid: key.tgid,
        tid: key.tid,
        op: OpId(key.op),
        direction: decode_direction(key.direction),
        count: sum.count,
        errors: sum.errors,
        kept: sum.kept,
        bytes: sum.bytes,
        sum_ns: sum.sum_ns,
        min_ns: sum.min_ns,
        max_ns: sum.max_ns,
        blame: Blame {
            oncpu_ns: sum.sum_ns.saturating_sub(waited_ns),
            runq_ns: sum.runq_ns,
            blocked_ns: sum.blocked_ns,
        },
        hist: Histogram::from_dense(sum.hist.into_iter().map(u64::from)),
        cost_ns: sum.cost_ns,
        beside_ns: sum.beside_ns,
        slice: key.slice,
    })
}

const _: () = assert!(Reason::COUNT == raw::REASONS as usize);
const _: () = assert!(Reason::Other as u32 == raw::REASON_OTHER);
const _: () = assert!(Direction::ALL.len() == raw::DIRECTION_UNKNOWN as usize);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::raw::bytes_of;

    fn zeroed<T: crate::raw::Raw>() -> T {
        read(&vec![0u8; size_of::<T>()]).unwrap()
    }

    #[test]
    fn a_golden_record_decodes() {
        let mut record: raw::call_record = zeroed();
        record.head.time_ns = 1_000;
        record.head.kind = raw::RECORD_CALL as u16;
        record.head.tgid = 42;
        record.head.tid = 43;
        record.duration_ns = 100;
        record.oncpu_ns = 30;
        record.runq_ns = 20;
        record.blocked_ns[raw::REASON_FUTEX as usize] = 50;
        record.op = 3;
        record.kept = raw::KEPT_SLOW as u8;
        record.ret = -1;
        record.stack_key = 77;
        record.launch.known = 1;
        record.launch.grid = [1, 2, 3];
        let call = decode(bytes_of(&record), 5_000).unwrap();
        assert_eq!((call.start_ns, call.pid, call.tid, call.op), (6_000, 42, 43, OpId(3)));
        assert_eq!(call.blame.total_ns(), call.duration_ns);
        assert_eq!(call.kept, Kept::Slow);
        assert_eq!(call.launch.unwrap().grid, [1, 2, 3]);
        assert_eq!(call.stack_key, 77);
    }

    #[test]
    fn devices_that_cannot_be_are_none() {
        let device = |next| {
            let mut record: raw::call_record = zeroed();
            record.kept = raw::KEPT_SLOW as u8;
            record.device_next = next;
            decode(bytes_of(&record), 0).unwrap().device
        };
        assert_eq!((device(0), device(1), device(8)), (None, Some(0), Some(7)));
        assert_eq!((device(i32::MIN), device(i32::MAX)), (None, None));
    }

    #[test]
    fn cut_off_records_are_refused() {
        assert!(decode(&[0u8; 40], 0).is_none());
    }

    #[test]
    fn sums_that_cannot_be_do_not_overflow() {
        let sum: raw::window_sum = read(&[0xff; size_of::<raw::window_sum>()]).unwrap();
        let key = read(&[0xff; size_of::<raw::window_key>()]).unwrap();
        assert_eq!(decode_window(&key, bytes_of(&sum), u64::MAX).unwrap().blame.oncpu_ns, 0);
        let stream = [0xff; size_of::<raw::stream_state>()];
        assert_eq!(crate::stream::decode_stream(0, &stream, u64::MAX, 0).unwrap().busy_upper_ns, u64::MAX);
    }

    #[test]
    fn sums_keep_their_parts() {
        let mut sum: raw::window_sum = zeroed();
        sum.count = 2;
        sum.sum_ns = 1_000;
        sum.runq_ns = 300;
        sum.blocked_ns[raw::REASON_SLEEP as usize] = 200;
        sum.hist[10] = 2;
        let key = raw::window_key {
            tgid: 1,
            tid: 2,
            window: 7,
            op: 5,
            direction: raw::DIRECTION_PEER as u8,
            slice: 0,
        };
        let window = decode_window(&key, bytes_of(&sum), 0).unwrap();
        assert_eq!(window.blame.oncpu_ns, 500);
        assert_eq!(window.hist.total(), 2);
        assert_eq!(window.direction, Some(Direction::Peer));
        assert_eq!(window.window_start_ns, 3_500_000_000);
    }
}
