//! Calls of the collective library in the words of its users.

use gpuwhy_model::{Collective, NcclCall};

/// NCCL's types in the order of its numbers, with their sizes.
const DATATYPES: [(&str, u64); 12] = [
    ("int8", 1),
    ("uint8", 1),
    ("int32", 4),
    ("uint32", 4),
    ("int64", 8),
    ("uint64", 8),
    ("float16", 2),
    ("float32", 4),
    ("float64", 8),
    ("bfloat16", 2),
    ("float8e4m3", 1),
    ("float8e5m2", 1),
];

/// In the order of NCCL's numbers; what a program makes itself comes behind.
const REDUCE_OPS: [&str; 5] = ["sum", "prod", "max", "min", "avg"];

/// Names that camel case does not tell.
const SPELLINGS: [(&str, &str); 3] =
    [("Bcast", "BROADCAST"), ("AlltoAll", "ALL_TO_ALL"), ("AlltoAllv", "ALL_TO_ALLV")];

/// `ncclAllReduce` is `ALL_REDUCE`.
pub(crate) fn event_name(function: &str) -> String {
    let name = function.strip_prefix("nccl").unwrap_or(function);
    // A collective with a configuration is the same collective; a communicator made with one is not.
    let name = if name.starts_with("Comm") { name } else { name.strip_suffix("Config").unwrap_or(name) };
    if let Some((_, event)) = SPELLINGS.iter().find(|(spelling, _)| *spelling == name) {
        return (*event).into();
    }
    let mut event = String::new();
    for character in name.chars() {
        if character.is_ascii_uppercase() && !event.is_empty() {
            event.push('_');
        }
        event.push(character.to_ascii_uppercase());
    }
    event
}

/// Whether calls of this name put work on a stream; others make communicators, groups and the like.
pub(crate) fn is_work(event: &str) -> bool {
    let others = ["GROUP_", "COMM_", "GET_", "MEM_", "RED_OP_"];
    !event.is_empty() && !others.iter().any(|prefix| event.starts_with(prefix))
}

/// A library in non-blocking mode answers `ncclInProgress` while it works.
pub(crate) fn went_well(ret: i32) -> bool {
    const IN_PROGRESS: i32 = 7;
    matches!(ret, 0 | IN_PROGRESS)
}

pub(crate) fn collective(nccl: &NcclCall, event: &str) -> Collective {
    let bytes = bytes(nccl);
    let mut call = nccl.call.clone();
    call.bytes = bytes.unwrap_or(call.bytes);
    Collective {
        event: event.into(),
        comm: call.handle,
        comm_id_hash: nccl.comm_id_hash,
        rank: nccl.rank,
        nranks: nccl.nranks,
        seq: nccl.seq,
        count: nccl.count,
        bytes,
        datatype: nccl.datatype.map(datatype_name),
        reduce_op: nccl.reduce_op.map(|number| reduce_op_name(number).into()),
        peer: nccl.peer,
        grouped: nccl.grouped,
        call,
    }
}

fn bytes(nccl: &NcclCall) -> Option<u64> {
    let size = nccl.datatype.and_then(datatype).map(|(_, size)| size);
    match (nccl.count, size) {
        (Some(count), Some(size)) => Some(count.saturating_mul(size)),
        _ => Some(nccl.call.bytes).filter(|bytes| *bytes != 0),
    }
}

fn datatype(number: i32) -> Option<(&'static str, u64)> {
    usize::try_from(number).ok().and_then(|number| DATATYPES.get(number)).copied()
}

/// A type of a newer library keeps its number.
fn datatype_name(number: i32) -> String {
    datatype(number).map_or_else(|| number.to_string(), |(name, _)| name.into())
}

fn reduce_op_name(number: i32) -> &'static str {
    usize::try_from(number).ok().and_then(|number| REDUCE_OPS.get(number)).copied().unwrap_or("custom")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::nccl;

    #[test]
    fn functions_have_the_names_of_their_events() {
        for (function, event) in [
            ("ncclAllReduce", "ALL_REDUCE"),
            ("ncclAllReduceConfig", "ALL_REDUCE"),
            ("ncclReduceScatter", "REDUCE_SCATTER"),
            ("ncclBroadcast", "BROADCAST"),
            ("ncclBcast", "BROADCAST"),
            ("ncclAlltoAll", "ALL_TO_ALL"),
            ("ncclAllToAll", "ALL_TO_ALL"),
            ("ncclSend", "SEND"),
            ("ncclPutSignal", "PUT_SIGNAL"),
            ("ncclGroupStart", "GROUP_START"),
            ("ncclCommInitRankConfig", "COMM_INIT_RANK_CONFIG"),
            ("ncclCommInitRankScalable", "COMM_INIT_RANK_SCALABLE"),
        ] {
            assert_eq!(event_name(function), event);
        }
        assert!(is_work("SEND") && is_work("ALL_TO_ALLV"));
        assert!(!is_work("GROUP_END") && !is_work("COMM_SPLIT") && !is_work("GET_UNIQUE_ID") && !is_work(""));
    }

    #[test]
    fn bytes_are_elements_times_their_size() {
        let reported = |nccl: NcclCall| {
            let row = collective(&nccl, "ALL_REDUCE");
            (row.bytes, row.call.bytes, row.datatype, row.reduce_op)
        };
        let text = |text: &str| Some(text.to_string());
        let call = nccl("ncclAllReduce", 9);
        assert_eq!(reported(call.clone()), (Some(40), 40, text("float32"), text("sum")));
        let half = NcclCall { datatype: Some(9), reduce_op: Some(4), ..call.clone() };
        assert_eq!(reported(half), (Some(20), 20, text("bfloat16"), text("avg")));
        let future = NcclCall { datatype: Some(12), reduce_op: Some(7), ..call.clone() };
        assert_eq!(reported(future), (None, 0, text("12"), text("custom")));
        let huge = NcclCall { count: Some(u64::MAX), ..call.clone() };
        assert_eq!(reported(huge).0, Some(u64::MAX));
        let unknown = NcclCall { datatype: None, reduce_op: None, count: None, ..call };
        assert_eq!(reported(unknown), (None, 0, None, None));
    }
}
