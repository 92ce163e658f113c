//! Calls that have not returned.

use crate::function::Function;
use crate::probe::{Attach, Probe, When};
use crate::raw::cuda::RULE_HANDLE_OUT;
use crate::raw::{bpf_object, inflight as raw, nccl, read};
use crate::wait_event::part_of;
use gpuwhy_model::{BetweenCalls, InFlight, Layer, OpId, ThreadPlace, ThreadRegisters};

pub(crate) static PROBE: Probe = Probe {
    name: "inflight",
    about: "calls that have not returned, looked at once a second: a hang shows while it lasts",
    object: bpf_object!("inflight"),
    attach: Attach::Tracepoints(&["task"]),
    when: When::Always,
    needs: None,
    cost: "nothing to the traced program; a walk over the host's threads once a second",
};

pub(crate) const RECORD_BYTES: usize = size_of::<raw::in_flight>();

pub(crate) const PLACE_BYTES: usize = size_of::<raw::place>();

pub(crate) fn decode_place(bytes: &[u8]) -> Option<ThreadPlace> {
    let raw: raw::place = read(bytes)?;
    Some(ThreadPlace {
        pid: raw.tgid,
        tid: raw.tid,
        cpu: raw.cpu,
        node: raw.node,
        migrations: raw.migrations,
        node_migrations: raw.node_migrations,
    })
}

pub(crate) const REGISTERS_BYTES: usize = size_of::<raw::registers>();

pub(crate) fn decode_registers(bytes: &[u8]) -> Option<ThreadRegisters> {
    let raw: raw::registers = read(bytes)?;
    let swaps = raw.swap.get(..raw.swaps as usize)?.iter().filter(|swap| swap.at != 0);
    Some(ThreadRegisters {
        pid: raw.tgid,
        tid: raw.tid,
        ip: raw.ip,
        sp: raw.sp,
        bp: raw.bp,
        swapped: swaps.map(|swap| (swap.at, swap.original)).collect(),
    })
}

pub(crate) const BETWEEN_BYTES: usize = size_of::<raw::between>();

pub(crate) fn decode_between(bytes: &[u8], clock_offset_ns: u64) -> Option<BetweenCalls> {
    let raw: raw::between = read(bytes)?;
    let time_ns = raw.now_ns.wrapping_add(clock_offset_ns);
    Some(BetweenCalls {
        time_ns,
        since_ns: match raw.since_ns {
            0 => time_ns,
            since_ns => since_ns.wrapping_add(clock_offset_ns),
        },
        pid: raw.tgid,
        tid: raw.tid,
        last_call_ns: match raw.last_call_ns {
            0 => 0,
            last_call_ns => last_call_ns.wrapping_add(clock_offset_ns),
        },
        op: OpId(raw.op),
        part: part_of(u16::try_from(raw.part).ok()?),
        weight_ns: 0,
        stack_id: None,
        thread_pointer: raw.thread_pointer,
    })
}

/// One call; `rules` gives the function of a rule's number.
pub(crate) fn decode<'a>(
    bytes: &[u8],
    clock_offset_ns: u64,
    function: impl Fn(u16) -> Option<&'a Function>,
) -> Option<InFlight> {
    let raw: raw::in_flight = read(bytes)?;
    let function = function(raw.rule)?;
    let arg = |number: u8| raw.args.get(usize::from(number).checked_sub(1)?).copied();
    let handle = match function.args.flags & RULE_HANDLE_OUT {
        0 => arg(function.args.handle).unwrap_or(0),
        _ => 0,
    };
    let mut call = InFlight {
        seen_ns: raw.now_ns.wrapping_add(clock_offset_ns),
        start_ns: raw.start_ns.wrapping_add(clock_offset_ns),
        op: OpId(raw.op),
        pid: raw.tgid,
        tid: raw.tid,
        stream: raw.stream,
        handle,
        communicator: raw.communicator,
        comm_id_hash: None,
        rank: None,
        nranks: None,
        seq: None,
        thread_pointer: raw.thread_pointer,
        stack_id: None,
        line: None,
    };
    if function.layer == Layer::Nccl {
        match u32::from(function.nccl.kind) {
            // The communicator does not exist yet: the kernel keeps its hash where others have their number.
            nccl::NCCL_INIT | nccl::NCCL_INIT_SCALABLE => {
                call.comm_id_hash = Some(raw.seq);
                call.rank = arg(function.nccl.rank).map(|rank| rank as i32);
                call.nranks = arg(function.nccl.nranks).map(|ranks| ranks as i32);
                call.handle = 0;
            }
            nccl::NCCL_COLLECTIVE => call.seq = Some(raw.seq).filter(|seq| *seq != 0),
            _ => {}
        }
    }
    Some(call)
}
