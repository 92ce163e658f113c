//! The functions of the HIP runtime that are probed, and how to read their calls.

use crate::function::Function;
use crate::probe::Library;
use crate::raw::hip as raw;
use gpuwhy_model::{Family, Layer, Role};

const fn hip(symbol: &'static str, family: Family) -> Function {
    Function::new(Library::Hip, Layer::Hip, symbol, family)
}

/// `(stub, grid, block, arguments, shared, stream)`: grid and block are structs by value.
const fn launch(symbol: &'static str) -> Function {
    hip(symbol, Launch).role(Role::Launch).handle(1).stream(8).with(raw::RULE_LAUNCH_DIM3).hot()
}

/// `(function, grid, block, shared, stream, ...)`, each size an argument.
const fn launch_module(symbol: &'static str) -> Function {
    hip(symbol, Launch).role(Role::Launch).handle(1).stream(9).with(raw::RULE_LAUNCH_ARGS).hot()
}

/// `(destination, source, bytes, ...)`
const fn copy(symbol: &'static str) -> Function {
    hip(symbol, Copy).role(Role::Submit).handle(1).aux(2).bytes(3)
}

/// `(pointer, value, count, ...)`
const fn set(symbol: &'static str) -> Function {
    hip(symbol, Set).role(Role::Submit).handle(1)
}

/// `(pointer out, bytes, ...)`
const fn alloc(symbol: &'static str, role: Role) -> Function {
    hip(symbol, Alloc).role(role).handle_out(1).bytes(2).state()
}

const fn free(symbol: &'static str, role: Role) -> Function {
    hip(symbol, Free).role(role).handle(1).state()
}

use Family::{Alloc, Copy, Event, Free, Graph, Launch, Load, Other, Set, Sync};

pub(super) static FUNCTIONS: &[Function] = &[
    launch("hipLaunchKernel"),
    launch("hipLaunchKernel_spt"),
    launch("hipExtLaunchKernel"),
    launch("hipLaunchCooperativeKernel"),
    launch_module("hipModuleLaunchKernel"),
    launch_module("hipModuleLaunchCooperativeKernel"),
    launch_module("hipExtModuleLaunchKernel").with(raw::RULE_GRID_THREADS),
    launch_module("hipHccModuleLaunchKernel").with(raw::RULE_GRID_THREADS),
    hip("hipLaunchKernelExC", Launch).role(Role::Launch).handle(2).with(raw::RULE_LAUNCH_CONFIG).hot(),
    hip("hipGraphLaunch", Graph).role(Role::GraphLaunch).handle(1).stream(2),
    hip("hipLaunchHostFunc", Other).role(Role::Submit).stream(1).handle(2),
    // Synchronisation and events
    hip("hipDeviceSynchronize", Sync).role(Role::SyncDevice).waits(),
    hip("hipStreamSynchronize", Sync).role(Role::SyncStream).stream(1).waits(),
    hip("hipEventSynchronize", Sync).role(Role::SyncEvent).handle(1).waits(),
    hip("hipStreamWaitEvent", Event).role(Role::StreamWait).stream(1).handle(2).hot(),
    hip("hipStreamQuery", Event).role(Role::StreamQuery).stream(1).query(),
    hip("hipEventQuery", Event).role(Role::EventQuery).handle(1).query(),
    hip("hipEventRecord", Event).role(Role::EventRecord).handle(1).stream(2).hot(),
    hip("hipEventRecordWithFlags", Event).role(Role::EventRecord).handle(1).stream(2).hot(),
    // Copies and memset
    copy("hipMemcpy").kind(4).waits(),
    copy("hipMemcpyAsync").kind(4).stream(5),
    copy("hipMemcpyWithStream").kind(4).stream(5).waits(),
    copy("hipMemcpyHtoD").goes(raw::DIRECTION_HOST_TO_DEVICE).waits(),
    copy("hipMemcpyHtoDAsync").goes(raw::DIRECTION_HOST_TO_DEVICE).stream(4),
    copy("hipMemcpyDtoH").goes(raw::DIRECTION_DEVICE_TO_HOST).waits(),
    copy("hipMemcpyDtoHAsync").goes(raw::DIRECTION_DEVICE_TO_HOST).stream(4),
    copy("hipMemcpyDtoD").goes(raw::DIRECTION_DEVICE_TO_DEVICE).waits(),
    copy("hipMemcpyDtoDAsync").goes(raw::DIRECTION_DEVICE_TO_DEVICE).stream(4),
    hip("hipMemcpy2D", Copy).role(Role::Submit).handle(1).aux(3).area(5).kind(7).waits(),
    hip("hipMemcpy2DAsync", Copy).role(Role::Submit).handle(1).aux(3).area(5).kind(7).stream(8),
    hip("hipMemcpyPeer", Copy).role(Role::Submit).handle(1).aux(3).bytes(5).goes(raw::DIRECTION_PEER).waits(),
    hip("hipMemcpyPeerAsync", Copy)
        .role(Role::Submit)
        .handle(1)
        .aux(3)
        .bytes(5)
        .goes(raw::DIRECTION_PEER)
        .stream(6),
    set("hipMemset").bytes(3),
    set("hipMemsetAsync").bytes(3).stream(4),
    set("hipMemsetD8").bytes(3),
    set("hipMemsetD8Async").bytes(3).stream(4),
    set("hipMemsetD32").words(3),
    set("hipMemsetD32Async").words(3).stream(4),
    // Memory
    alloc("hipMalloc", Role::AllocDevice),
    hip("hipExtMallocWithFlags", Alloc).role(Role::AllocDevice).handle_out(1).bytes(2).state(),
    alloc("hipMallocAsync", Role::AllocDevice).stream(3),
    alloc("hipMallocFromPoolAsync", Role::AllocDevice).aux(3).stream(4),
    alloc("hipMallocManaged", Role::AllocManaged),
    alloc("hipMallocPitch", Role::AllocDevice).pitched(),
    alloc("hipHostMalloc", Role::AllocHost),
    alloc("hipHostAlloc", Role::AllocHost),
    alloc("hipMallocHost", Role::AllocHost),
    hip("hipHostRegister", Alloc).role(Role::RegisterHost).handle(1).bytes(2).state(),
    hip("hipMemAddressReserve", Alloc).bytes(2).handle_out(1),
    hip("hipMemCreate", Alloc).role(Role::PhysicalCreate).bytes(2).handle_out(1).state(),
    hip("hipMemMap", Alloc).role(Role::PhysicalMap).bytes(2).handle(1).aux(4).state(),
    hip("hipMemRetainAllocationHandle", Alloc).role(Role::PhysicalRetain).handle_out(1).aux(2).state(),
    free("hipFree", Role::Free),
    free("hipFreeAsync", Role::Free).stream(2),
    free("hipHostFree", Role::Free),
    free("hipFreeHost", Role::Free),
    free("hipHostUnregister", Role::UnregisterHost),
    hip("hipMemAddressFree", Free).bytes(2).handle(1),
    free("hipMemUnmap", Role::PhysicalUnmap).bytes(2),
    free("hipMemRelease", Role::PhysicalRelease),
    // Graphs
    hip("hipStreamBeginCapture", Graph).role(Role::CaptureBegin).stream(1).state(),
    hip("hipStreamEndCapture", Graph).role(Role::CaptureEnd).stream(1).handle_out(2).state(),
    hip("hipGraphCreate", Graph).role(Role::GraphCreate).handle_out(1).state(),
    hip("hipGraphClone", Graph).role(Role::GraphClone).handle_out(1).aux(2).state(),
    hip("hipGraphInstantiate", Graph).role(Role::GraphInstantiate).handle_out(1).aux(2).state(),
    hip("hipGraphInstantiateWithFlags", Graph).role(Role::GraphInstantiate).handle_out(1).aux(2).state(),
    hip("hipGraphInstantiateWithParams", Graph).role(Role::GraphInstantiate).handle_out(1).aux(2).state(),
    hip("hipGraphExecUpdate", Graph).role(Role::GraphUpdate).handle(1).aux(2).state(),
    hip("hipGraphDestroy", Graph).role(Role::GraphDestroy).handle(1).state(),
    hip("hipGraphExecDestroy", Graph).role(Role::ExecDestroy).handle(1).state(),
    hip("hipGraphAddKernelNode", Graph).role(Role::GraphAddKernel).aux(2).state(),
    hip("hipGraphAddMemcpyNode", Graph).role(Role::GraphAddCopy).aux(2).state(),
    hip("hipGraphAddMemsetNode", Graph).role(Role::GraphAddSet).aux(2).state(),
    hip("hipGraphAddHostNode", Graph).role(Role::GraphAddHost).aux(2).state(),
    hip("hipGraphAddChildGraphNode", Graph).role(Role::GraphAddChild).aux(2).handle(5).state(),
    // Modules, functions, devices
    hip("hipModuleLoadData", Load).role(Role::ModuleLoad).handle_out(1).aux_out(2).state().slow(1_000),
    hip("hipModuleLoadDataEx", Load).role(Role::ModuleLoad).handle_out(1).aux_out(2).state().slow(1_000),
    hip("hipModuleLoad", Load).role(Role::ModuleLoad).handle_out(1).name(2).state().slow(1_000),
    hip("hipModuleGetFunction", Load).role(Role::FunctionName).handle_out(1).aux(2).name(3).state(),
    hip("__hipRegisterFunction", Load).role(Role::Register).handle(2).aux(4).with(raw::RULE_NO_RETURN),
    hip("hipSetDevice", Other).role(Role::SetDevice).with(raw::RULE_NO_RETURN),
];
