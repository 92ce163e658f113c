//! The kinds of rows that Ingero numbers by source and operation, and what they are to us.

use gpuwhy_model::Family;

/// Sources of library calls: the CUDA runtime, the driver, graphs.
pub(super) const CALLS: [i64; 3] = [1, 4, 8];
/// Source of scheduler, memory and process events.
pub(super) const HOST: i64 = 3;
pub(super) const TCP: i64 = 6;
/// A source has fewer operations than this: source times it plus operation numbers both.
pub(super) const OPS_A_SOURCE: i64 = 256;
/// A thread got the CPU back; the duration is how long it was without.
pub(super) const SCHED_SWITCH: (i64, i64) = (HOST, 1);

#[derive(Debug)]
pub(super) struct Kind {
    pub(super) source: i64,
    pub(super) op: i64,
    pub(super) is: Is,
}

#[derive(Debug)]
pub(super) enum Is {
    /// Of the function with this name.
    Call(&'static str, Function),
    /// A row of our table, and the event it is there.
    Event(&'static str, &'static str),
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Function {
    pub(super) family: Family,
    pub(super) waits: bool,
    /// As `ops.role` has it; only where the row has what the role promises.
    pub(super) role: Option<&'static str>,
    /// The column that holds how many bytes it was about.
    pub(super) bytes: Option<&'static str>,
    /// The column that holds the function or pointer it was about.
    pub(super) handle: Option<&'static str>,
    /// `arg1` is a cudaMemcpyKind.
    pub(super) has_direction: bool,
}

impl Kind {
    pub(super) fn call(&self) -> Option<(&'static str, Function)> {
        match self.is {
            Is::Call(name, function) => Some((name, function)),
            Is::Event(..) => None,
        }
    }
}

/// All that is known. Calls have the names the libraries export; kernel events keep Ingero's, but for
/// `tcp_retransmit_skb`.
pub(super) const KINDS: &[Kind] = &[
    call(1, 1, "cudaMalloc", ALLOC),
    call(1, 2, "cudaFree", Function { bytes: Some("arg1"), handle: Some("arg0"), ..plain(Family::Free) }),
    call(1, 3, "cudaLaunchKernel", LAUNCH),
    call(1, 4, "cudaMemcpy", Function { has_direction: true, waits: true, ..COPY }),
    call(1, 5, "cudaStreamSynchronize", SYNC),
    call(1, 6, "cudaDeviceSynchronize", SYNC),
    call(1, 7, "cudaMemcpyAsync", Function { has_direction: true, ..COPY }),
    call(1, 8, "cudaMallocManaged", ALLOC),
    // What the arguments of these hold is not documented.
    call(1, 9, "cudaMemcpy2D", Function { waits: true, ..plain(Family::Copy) }),
    call(1, 10, "cudaMemcpy2DAsync", plain(Family::Copy)),
    call(1, 11, "cudaMemcpyPeer", plain(Family::Copy)),
    call(1, 12, "cudaMemcpyPeerAsync", plain(Family::Copy)),
    call(4, 1, "cuLaunchKernel", LAUNCH),
    call(4, 2, "cuMemcpy", Function { waits: true, ..COPY }),
    call(4, 3, "cuMemcpyAsync", COPY),
    call(4, 4, "cuCtxSynchronize", SYNC),
    call(4, 5, "cuMemAlloc", ALLOC),
    call(4, 6, "cuMemAllocManaged", ALLOC),
    call(8, 1, "cudaStreamBeginCapture", plain(Family::Graph)),
    call(8, 2, "cudaStreamEndCapture", plain(Family::Graph)),
    call(8, 3, "cudaGraphInstantiate", plain(Family::Graph)),
    call(8, 4, "cudaGraphLaunch", plain(Family::Graph)),
    event(HOST, 1, "sched_events", "sched_switch"),
    event(HOST, 2, "sched_events", "sched_wakeup"),
    event(HOST, 3, "mem_events", "mm_page_alloc"),
    event(HOST, 4, "mem_events", "oom_kill"),
    event(HOST, 5, "process_events", "process_exec"),
    event(HOST, 6, "process_events", "process_exit"),
    event(HOST, 7, "process_events", "process_fork"),
    event(HOST, 10, "process_events", "pod_restart"),
    event(HOST, 11, "process_events", "pod_eviction"),
    event(HOST, 12, "mem_events", "pod_oom_kill"),
    event(5, 1, "io_events", "block_read"),
    event(5, 2, "io_events", "block_write"),
    event(5, 3, "io_events", "block_discard"),
    event(TCP, 1, "tcp_events", "tcp_retransmit_skb"),
    event(7, 1, "net_events", "net_send"),
    event(7, 2, "net_events", "net_recv"),
];

const fn plain(family: Family) -> Function {
    Function { family, waits: false, role: None, bytes: None, handle: None, has_direction: false }
}

const LAUNCH: Function = Function { role: Some("launch"), handle: Some("arg0"), ..plain(Family::Launch) };
const ALLOC: Function = Function { bytes: Some("arg0"), ..plain(Family::Alloc) };
const COPY: Function = Function { bytes: Some("arg0"), ..plain(Family::Copy) };
const SYNC: Function = Function { waits: true, ..plain(Family::Sync) };

const fn call(source: i64, op: i64, name: &'static str, function: Function) -> Kind {
    Kind { source, op, is: Is::Call(name, function) }
}

const fn event(source: i64, op: i64, table: &'static str, event: &'static str) -> Kind {
    Kind { source, op, is: Is::Event(table, event) }
}

/// The kinds that are rows of a table of ours.
pub(super) fn of_table(table: &str) -> impl Iterator<Item = (&'static Kind, &'static str)> {
    KINDS.iter().filter_map(move |kind| match kind.is {
        Is::Event(of, event) if of == table => Some((kind, event)),
        _ => None,
    })
}

/// Whether a row is the time at its end: what is sent when it is over has that time, calls have their start's.
pub(super) fn stamped_at_end(source: i64) -> bool {
    !CALLS.contains(&source)
}
