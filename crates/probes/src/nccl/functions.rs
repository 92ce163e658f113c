//! The functions of NCCL that are probed. A unique id is 128 bytes by value: on x86-64 it lies on the stack and takes no
//! register, elsewhere a pointer to it does.

use crate::function::Function;
use crate::probe::Library;
use crate::raw::nccl as raw;
use gpuwhy_model::{Family, Layer};

/// `ncclInProgress`: what calls on a non-blocking communicator return.
const IN_PROGRESS: i32 = 7;
const ID_IN_MEMORY: bool = cfg!(target_arch = "x86_64");

const fn nccl(symbol: &'static str, kind: u32) -> Function {
    Function::new(Library::Nccl, Layer::Nccl, symbol, Family::Collective)
        .nccl(kind)
        .benign(IN_PROGRESS)
        .slow(10_000)
}

impl Function {
    const fn count(mut self, number: u8) -> Self {
        self.nccl.count = number;
        self
    }

    const fn datatype(mut self, number: u8) -> Self {
        self.nccl.datatype = number;
        self
    }

    const fn reduce(mut self, number: u8) -> Self {
        self.nccl.reduce = number;
        self
    }

    const fn peer(mut self, number: u8) -> Self {
        self.nccl.peer = number;
        self
    }

    const fn ranks(mut self, rank: u8, nranks: u8) -> Self {
        self.nccl.rank = rank;
        self.nccl.nranks = nranks;
        self
    }

    const fn id(mut self, number: u8) -> Self {
        self.nccl.id = number;
        self
    }
}

/// `(send, receive, count, type, op, communicator, stream, ...)`
const fn reducing(symbol: &'static str) -> Function {
    nccl(symbol, raw::NCCL_COLLECTIVE).count(3).datatype(4).reduce(5).handle(6).stream(7)
}

/// `(send, receive, count, type, root, communicator, stream, ...)`
const fn rooted(symbol: &'static str) -> Function {
    nccl(symbol, raw::NCCL_COLLECTIVE).count(3).datatype(4).peer(5).handle(6).stream(7)
}

/// `(send, receive, count, type, op, root, communicator, stream, ...)`
const fn reducing_to_root(symbol: &'static str) -> Function {
    nccl(symbol, raw::NCCL_COLLECTIVE).count(3).datatype(4).reduce(5).peer(6).handle(7).stream(8)
}

/// `(send, receive, count, type, communicator, stream, ...)`
const fn gathering(symbol: &'static str) -> Function {
    nccl(symbol, raw::NCCL_COLLECTIVE).count(3).datatype(4).handle(5).stream(6)
}

/// `(buffer, count, type, peer, communicator, stream)`
const fn message(symbol: &'static str) -> Function {
    nccl(symbol, raw::NCCL_MESSAGE).count(2).datatype(3).peer(4).handle(5).stream(6)
}

/// `(communicator out, ranks, id by value, rank, ...)`
const fn init(symbol: &'static str) -> Function {
    let function = nccl(symbol, raw::NCCL_INIT).handle(1);
    if ID_IN_MEMORY { function.ranks(3, 2) } else { function.ranks(4, 2).id(3) }
}

const fn end(symbol: &'static str) -> Function {
    nccl(symbol, raw::NCCL_END).handle(1)
}

pub(super) static FUNCTIONS: &[Function] = &[
    reducing("ncclAllReduce"),
    reducing("ncclAllReduceConfig"),
    reducing("ncclReduceScatter"),
    reducing("ncclReduceScatterConfig"),
    reducing_to_root("ncclReduce"),
    reducing_to_root("ncclReduceConfig"),
    rooted("ncclBroadcast"),
    rooted("ncclBroadcastConfig"),
    rooted("ncclGather"),
    rooted("ncclGatherConfig"),
    rooted("ncclScatter"),
    rooted("ncclScatterConfig"),
    gathering("ncclAllGather"),
    gathering("ncclAllGatherConfig"),
    gathering("ncclAlltoAll"),
    gathering("ncclAlltoAllConfig"),
    // RCCL's spelling.
    gathering("ncclAllToAll"),
    // `(buffer, count, type, root, communicator, stream)`
    nccl("ncclBcast", raw::NCCL_COLLECTIVE).count(2).datatype(3).peer(4).handle(5).stream(6),
    message("ncclSend"),
    message("ncclRecv"),
    // `(buffer, count, type, peer, window, offset, signal, context, flags, communicator, stream)`
    nccl("ncclPutSignal", raw::NCCL_MESSAGE).count(2).datatype(3).peer(4).handle(10).stream(11),
    // `(peer, signal, context, flags, communicator, stream)`
    nccl("ncclSignal", raw::NCCL_MESSAGE).peer(1).handle(5).stream(6),
    // `(how many, descriptors, communicator, stream)`
    nccl("ncclWaitSignal", raw::NCCL_MESSAGE).handle(3).stream(4),
    nccl("ncclGroupStart", raw::NCCL_GROUP_START),
    nccl("ncclGroupEnd", raw::NCCL_GROUP_END),
    init("ncclCommInitRank"),
    init("ncclCommInitRankConfig"),
    // `(communicator out, ranks, rank, how many ids, ids, config)`
    nccl("ncclCommInitRankScalable", raw::NCCL_INIT_SCALABLE).handle(1).ranks(3, 2).id(5),
    // `(communicators out, devices, list)`
    nccl("ncclCommInitAll", raw::NCCL_INIT_ALL).handle(1),
    // `(communicator, colour, key, communicator out, config)`
    nccl("ncclCommSplit", raw::NCCL_SPLIT).handle(4),
    // `(communicator, excluded, how many, communicator out, config, flags)`
    nccl("ncclCommShrink", raw::NCCL_SHRINK).handle(4),
    nccl("ncclCommFinalize", raw::NCCL_OTHER).handle(1),
    end("ncclCommDestroy"),
    end("ncclCommAbort"),
];
