//! Hand-made records for the tests.

use gpuwhy_model::{
    Batch, Call, Family, Kept, Layer, NcclCall, OpId, OpInfo, ProcessEvent, ProcessEventKind, Role,
};

pub(crate) const PID: u32 = 7;

const OPS: &[(&str, Layer, Family, Role)] = &[
    ("cuLaunchKernel", Layer::Cuda, Family::Launch, Role::Launch),
    ("cudaGraphLaunch", Layer::Cuda, Family::Graph, Role::GraphLaunch),
    ("cudaMemcpyAsync", Layer::Cuda, Family::Copy, Role::Submit),
    ("cudaMemsetAsync", Layer::Cuda, Family::Set, Role::Submit),
    ("cudaLaunchHostFunc", Layer::Cuda, Family::Other, Role::Submit),
    ("cudaStreamSynchronize", Layer::Cuda, Family::Sync, Role::SyncStream),
    ("cudaStreamBeginCapture", Layer::Cuda, Family::Graph, Role::CaptureBegin),
    ("cudaStreamEndCapture", Layer::Cuda, Family::Graph, Role::CaptureEnd),
    ("cudaGraphCreate", Layer::Cuda, Family::Graph, Role::GraphCreate),
    ("cudaGraphClone", Layer::Cuda, Family::Graph, Role::GraphClone),
    ("cudaGraphInstantiate", Layer::Cuda, Family::Graph, Role::GraphInstantiate),
    ("cudaGraphExecUpdate", Layer::Cuda, Family::Graph, Role::GraphUpdate),
    ("cudaGraphAddKernelNode", Layer::Cuda, Family::Graph, Role::GraphAddKernel),
    ("cudaGraphAddMemcpyNode", Layer::Cuda, Family::Graph, Role::GraphAddCopy),
    ("cudaGraphAddMemsetNode", Layer::Cuda, Family::Graph, Role::GraphAddSet),
    ("cudaGraphAddHostNode", Layer::Cuda, Family::Graph, Role::GraphAddHost),
    ("cudaGraphAddChildGraphNode", Layer::Cuda, Family::Graph, Role::GraphAddChild),
    ("cudaGraphDestroy", Layer::Cuda, Family::Graph, Role::GraphDestroy),
    ("cudaGraphExecDestroy", Layer::Cuda, Family::Graph, Role::ExecDestroy),
    ("cudaMalloc", Layer::Cuda, Family::Alloc, Role::AllocDevice),
    ("cudaMallocManaged", Layer::Cuda, Family::Alloc, Role::AllocManaged),
    ("cudaHostAlloc", Layer::Cuda, Family::Alloc, Role::AllocHost),
    ("cudaHostRegister", Layer::Cuda, Family::Alloc, Role::RegisterHost),
    ("cudaHostUnregister", Layer::Cuda, Family::Free, Role::UnregisterHost),
    ("cudaFree", Layer::Cuda, Family::Free, Role::Free),
    ("cuMemCreate", Layer::Cuda, Family::Alloc, Role::PhysicalCreate),
    ("cuMemMap", Layer::Cuda, Family::Alloc, Role::PhysicalMap),
    ("cuMemUnmap", Layer::Cuda, Family::Free, Role::PhysicalUnmap),
    ("cuMemRelease", Layer::Cuda, Family::Free, Role::PhysicalRelease),
    ("cuMemRetainAllocationHandle", Layer::Cuda, Family::Alloc, Role::PhysicalRetain),
    ("cuCtxCreate", Layer::Cuda, Family::Load, Role::ContextCreate),
    ("cuModuleLoadData", Layer::Cuda, Family::Load, Role::ModuleLoad),
    ("cuLinkComplete", Layer::Cuda, Family::Load, Role::Jit),
    ("cuModuleGetFunction", Layer::Cuda, Family::Load, Role::FunctionName),
    ("cuKernelGetFunction", Layer::Cuda, Family::Load, Role::KernelFunction),
    ("__cudaRegisterFunction", Layer::Cuda, Family::Load, Role::Register),
    ("ncclAllReduce", Layer::Nccl, Family::Collective, Role::None),
    ("ncclBcast", Layer::Nccl, Family::Collective, Role::None),
    ("ncclGroupStart", Layer::Nccl, Family::Collective, Role::None),
    ("ncclCommSplit", Layer::Nccl, Family::Collective, Role::None),
    ("ncclCommDestroy", Layer::Nccl, Family::Collective, Role::None),
];

pub(crate) fn ops() -> Vec<OpInfo> {
    let info = |(i, (name, layer, family, role)): (usize, &(&str, Layer, Family, Role))| OpInfo {
        id: OpId(i as u16 + 1),
        name: (*name).into(),
        layer: *layer,
        family: *family,
        waits_for_gpu: false,
        role: *role,
    };
    OPS.iter().enumerate().map(info).collect()
}

pub(crate) fn op(name: &str) -> OpId {
    OpId(OPS.iter().position(|(known, ..)| *known == name).unwrap() as u16 + 1)
}

/// A call that returned at `end_ns`, after a nanosecond.
pub(crate) fn call(name: &str, end_ns: u64) -> Call {
    Call {
        start_ns: end_ns - 1,
        duration_ns: 1,
        op: op(name),
        pid: PID,
        tid: PID,
        kept: Kept::State,
        ..Call::default()
    }
}

pub(crate) fn handle(name: &str, end_ns: u64, handle: u64) -> Call {
    Call { handle, ..call(name, end_ns) }
}

pub(crate) fn nccl(name: &str, end_ns: u64) -> NcclCall {
    NcclCall {
        call: handle(name, end_ns, 0xc0),
        communicator: 1,
        comm_id_hash: Some(0xabc),
        rank: Some(0),
        nranks: Some(2),
        seq: Some(1),
        count: Some(10),
        datatype: Some(7),
        reduce_op: Some(0),
        peer: None,
        grouped: false,
        stream_slot: 3,
        mark: 1,
    }
}

pub(crate) fn calls(calls: impl Into<Vec<Call>>) -> Batch {
    Batch { calls: calls.into(), ..Batch::default() }
}

pub(crate) fn exit(time_ns: u64) -> ProcessEvent {
    ProcessEvent {
        time_ns,
        kind: ProcessEventKind::Exit,
        pid: PID,
        tid: PID,
        child: 0,
        exit_code: 0,
        cgroup_id: 0,
        comm: String::new(),
        waits_only: false,
    }
}

/// The same numbers in every run (xorshift).
#[derive(Debug)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % limit
    }
}
