//! Call records and call sums: raw bytes to the model's values.

use crate::raw::{cuda as raw, read, text};
use gpuwhy_model::{Blame, Call, CallWindow, Direction, Histogram, Kept, Launch, OpId, Reason, Stack};
use std::hash::{DefaultHasher, Hash, Hasher};

/// As in `bpf/kernel.h`.
pub(crate) const WINDOW_NS: u64 = 500_000_000;

/// A kept call and its stack, if it brought one.
pub(crate) fn decode(bytes: &[u8], clock_offset_ns: u64) -> Option<(Call, Option<Stack>)> {
    let record: raw::call_record = read(bytes)?;
    match u32::from(record.head.kind) {
        raw::RECORD_CALL_STACK => decode_with_stack(bytes, size_of::<raw::call_record>(), clock_offset_ns),
        raw::RECORD_CALL_NAMED => {
            let mut call = decode_call(&record, clock_offset_ns)?;
            call.name = decode_name(bytes);
            Some((call, None))
        }
        _ => Some((decode_call(&record, clock_offset_ns)?, None)),
    }
}

/// The same of a record whose stack begins at `stack_at`.
pub(crate) fn decode_with_stack(
    bytes: &[u8],
    stack_at: usize,
    clock_offset_ns: u64,
) -> Option<(Call, Option<Stack>)> {
    let record: raw::call_record = read(bytes)?;
    let mut call = decode_call(&record, clock_offset_ns)?;
    let stack = decode_stack(&record, bytes, stack_at);
    call.stack_id = stack.as_ref().map(|stack| stack.stack_id);
    Some((call, stack))
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
        device: known_or(record.device_next, 0).map(|next| (next - 1) as u16),
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

fn decode_stack(record: &raw::call_record, bytes: &[u8], at: usize) -> Option<Stack> {
    if record.stack_bytes == 0 {
        return None;
    }
    let words = bytes.get(at..at + record.stack_bytes as usize)?;
    let addresses: Vec<u64> =
        words.chunks_exact(8).filter_map(|word| word.try_into().ok()).map(u64::from_le_bytes).collect();
    let mut hasher = DefaultHasher::new();
    (record.head.tgid, &addresses).hash(&mut hasher);
    Some(Stack { stack_id: hasher.finish() as i64, pid: record.head.tgid, addresses })
}

/// The sums of one thread, operation and window.
pub(crate) fn decode_window(key: &raw::window_key, value: &[u8], clock_offset_ns: u64) -> Option<CallWindow> {
    let sum: raw::window_sum = read(value)?;
    let waited_ns = sum.runq_ns + sum.blocked_ns.iter().sum::<u64>();
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
        record.head.kind = raw::RECORD_CALL_STACK as u16;
        record.head.tgid = 42;
        record.head.tid = 43;
        record.duration_ns = 100;
        record.oncpu_ns = 30;
        record.runq_ns = 20;
        record.blocked_ns[raw::REASON_FUTEX as usize] = 50;
        record.op = 3;
        record.kept = raw::KEPT_SLOW as u8;
        record.ret = -1;
        record.stack_bytes = 16;
        record.launch.known = 1;
        record.launch.grid = [1, 2, 3];
        let mut bytes = bytes_of(&record).to_vec();
        bytes.extend_from_slice(&0x1111u64.to_le_bytes());
        bytes.extend_from_slice(&0x2222u64.to_le_bytes());
        let (call, stack) = decode(&bytes, 5_000).unwrap();
        assert_eq!((call.start_ns, call.pid, call.tid, call.op), (6_000, 42, 43, OpId(3)));
        assert_eq!(call.blame.total_ns(), call.duration_ns);
        assert_eq!(call.kept, Kept::Slow);
        assert_eq!(call.launch.unwrap().grid, [1, 2, 3]);
        assert_eq!(stack.unwrap().addresses, vec![0x1111, 0x2222]);
    }

    #[test]
    fn cut_off_records_are_refused() {
        assert!(decode(&[0u8; 40], 0).is_none());
        let mut record: raw::call_record = zeroed();
        record.head.kind = raw::RECORD_CALL_STACK as u16;
        record.kept = raw::KEPT_SLOW as u8;
        record.stack_bytes = 512;
        let (_, stack) = decode(bytes_of(&record), 0).unwrap();
        assert!(stack.is_none(), "the stack is not there");
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
            reserved: 0,
        };
        let window = decode_window(&key, bytes_of(&sum), 0).unwrap();
        assert_eq!(window.blame.oncpu_ns, 500);
        assert_eq!(window.hist.total(), 2);
        assert_eq!(window.direction, Some(Direction::Peer));
        assert_eq!(window.window_start_ns, 3_500_000_000);
    }
}
