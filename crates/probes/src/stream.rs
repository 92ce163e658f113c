//! Streams and launches by function, as the kernel keeps them.

use crate::raw::{cuda as raw, read};
use gpuwhy_model::{Completion, LaunchCount, OpId, StreamState};

pub(crate) fn decode_completion(bytes: &[u8], clock_offset_ns: u64) -> Option<Completion> {
    let record: raw::completion_record = read(bytes)?;
    Some(Completion {
        time_ns: record.head.time_ns.wrapping_add(clock_offset_ns),
        pid: record.head.tgid,
        tid: record.head.tid,
        stream_slot: record.slot,
        done: record.done,
        op: OpId(record.op),
        wait_ns: record.wait_ns,
    })
}

/// A stream as it stands at `now_ns` of the kernel's clock: work and waits under way count up to now.
pub(crate) fn decode_stream(
    slot: u32,
    bytes: &[u8],
    now_ns: u64,
    clock_offset_ns: u64,
) -> Option<StreamState> {
    let state: raw::stream_state = read(bytes)?;
    if state.tgid == 0 {
        return None;
    }
    let since = |begin_ns: u64| if begin_ns == 0 { 0 } else { now_ns.saturating_sub(begin_ns) };
    Some(StreamState {
        time_ns: now_ns.wrapping_add(clock_offset_ns),
        pid: state.tgid,
        stream: state.stream,
        stream_slot: slot,
        tid: state.tid,
        submitted: state.submitted,
        launches: state.launches,
        launch_ns: state.launch_ns,
        busy_upper_ns: state.upper_ns.saturating_add(since(state.pending_since_ns)),
        busy_lower_ns: state.lower_ns.saturating_add(proof(since(state.waiting_since_ns))),
    })
}

/// What of a wait proves that the stream worked, as `end_wait` in `bpf/stream.h` has it.
fn proof(waited_ns: u64) -> u64 {
    waited_ns.saturating_sub(u64::from(raw::NOTICE_NS) + waited_ns / u64::from(raw::NOTICE_SHARE))
}

pub(crate) fn decode_function(bytes: &[u8], now_ns: u64) -> Option<LaunchCount> {
    let state: raw::function_state = read(bytes)?;
    (state.tgid != 0 && state.count != 0).then_some(LaunchCount {
        time_ns: now_ns,
        pid: state.tgid,
        handle: state.handle,
        graph: state.graph != 0,
        count: state.count,
        sum_ns: state.sum_ns,
    })
}
