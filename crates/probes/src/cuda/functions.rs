//! The functions of the CUDA driver and runtime that are probed, and how to read their calls.

use crate::function::Function;
use crate::probe::Library;
use crate::raw::cuda as raw;
use gpuwhy_model::{Family, Layer, Role};

const fn driver(symbol: &'static str, family: Family) -> Function {
    Function::new(Library::CudaDriver, Layer::Cuda, symbol, family)
}

const fn runtime(symbol: &'static str, family: Family) -> Function {
    Function::new(Library::CudaRuntime, Layer::Cuda, symbol, family)
}

/// `cuLaunchKernel(f, gx, gy, gz, bx, by, bz, shared, stream, ...)`: the last three are on the stack.
const fn launch(symbol: &'static str) -> Function {
    driver(symbol, Launch).role(Role::Launch).handle(1).stream(9).with(raw::RULE_LAUNCH_ARGS).hot()
}

/// `cuLaunchKernelEx(config, f, ...)`: the configuration holds grid, block and stream.
const fn launch_ex(symbol: &'static str) -> Function {
    driver(symbol, Launch).role(Role::Launch).handle(2).with(raw::RULE_LAUNCH_CONFIG).hot()
}

/// `(exec, stream)`: one is many launches, so it is worth keeping as other calls are.
const fn graph_launch(function: Function) -> Function {
    function.role(Role::GraphLaunch).handle(1).stream(2)
}

/// `(destination, source, bytes, ...)`
const fn copy(function: Function) -> Function {
    function.role(Role::Submit).handle(1).aux(2).bytes(3)
}

/// `(destination, pitch, source, pitch, width, height, kind, ...)`
const fn copy_2d(function: Function) -> Function {
    function.role(Role::Submit).handle(1).aux(3).area(5).kind(7)
}

/// `(destination, device, source, device, bytes, ...)`
const fn copy_peer(function: Function) -> Function {
    function.role(Role::Submit).handle(1).aux(3).bytes(5).goes(raw::DIRECTION_PEER)
}

/// `(pointer, value, count, ...)`
const fn set(function: Function) -> Function {
    function.role(Role::Submit).handle(1)
}

/// `(pointer out, bytes, ...)`
const fn alloc(function: Function) -> Function {
    function.role(Role::AllocDevice).handle_out(1).bytes(2).state()
}

const fn alloc_managed(function: Function) -> Function {
    alloc(function).role(Role::AllocManaged)
}

const fn alloc_host(function: Function) -> Function {
    alloc(function).role(Role::AllocHost)
}

const fn free(function: Function) -> Function {
    function.role(Role::Free).handle(1).state()
}

/// `(module out, image, ...)`: the image's first bytes tell machine code from source.
const fn load_image(symbol: &'static str) -> Function {
    driver(symbol, Load).role(Role::ModuleLoad).handle_out(1).aux_out(2).state().slow(1_000)
}

/// `(module out, path, ...)`
const fn load_file(symbol: &'static str) -> Function {
    driver(symbol, Load).role(Role::ModuleLoad).handle_out(1).name(2).state().slow(1_000)
}

/// `(function out, module, name)`
const fn get_function(symbol: &'static str) -> Function {
    driver(symbol, Load).role(Role::FunctionName).handle_out(1).aux(2).name(3).state()
}

/// `(node out, graph, dependencies, how many, what)`
const fn graph_add(symbol: &'static str, role: Role) -> Function {
    driver(symbol, Graph).role(role).aux(2).state()
}

const fn begin_capture(function: Function) -> Function {
    function.role(Role::CaptureBegin).stream(1).state()
}

/// `(stream, graph out)`
const fn end_capture(function: Function) -> Function {
    function.role(Role::CaptureEnd).stream(1).handle_out(2).state()
}

/// `(exec out, graph, ...)`
const fn instantiate(function: Function) -> Function {
    function.role(Role::GraphInstantiate).handle_out(1).aux(2).state()
}

/// `(exec, graph, ...)`
const fn update(function: Function) -> Function {
    function.role(Role::GraphUpdate).handle(1).aux(2).state()
}

const fn of_graph(function: Function, role: Role) -> Function {
    function.role(role).handle(1).state()
}

const fn context(symbol: &'static str) -> Function {
    driver(symbol, Load).role(Role::ContextCreate).handle_out(1).slow(1_000)
}

use Family::{Alloc, Copy, Event, Free, Graph, Launch, Load, Other, Set, Sync};

pub(super) static FUNCTIONS: &[Function] = &[
    launch("cuLaunchKernel"),
    launch("cuLaunchKernel_ptsz"),
    launch("cuLaunchCooperativeKernel"),
    launch("cuLaunchCooperativeKernel_ptsz"),
    launch_ex("cuLaunchKernelEx"),
    launch_ex("cuLaunchKernelEx_ptsz"),
    graph_launch(runtime("cudaGraphLaunch", Graph)),
    graph_launch(runtime("cudaGraphLaunch_ptsz", Graph)),
    graph_launch(driver("cuGraphLaunch", Graph)),
    graph_launch(driver("cuGraphLaunch_ptsz", Graph)),
    runtime("cudaLaunchHostFunc", Other).role(Role::Submit).stream(1).handle(2),
    runtime("cudaLaunchHostFunc_ptsz", Other).role(Role::Submit).stream(1).handle(2),
    driver("cuLaunchHostFunc", Other).role(Role::Submit).stream(1).handle(2),
    driver("cuLaunchHostFunc_ptsz", Other).role(Role::Submit).stream(1).handle(2),
    // Synchronisation
    runtime("cudaDeviceSynchronize", Sync).role(Role::SyncDevice).waits(),
    runtime("cudaStreamSynchronize", Sync).role(Role::SyncStream).stream(1).waits(),
    runtime("cudaStreamSynchronize_ptsz", Sync).role(Role::SyncStream).stream(1).waits(),
    runtime("cudaEventSynchronize", Sync).role(Role::SyncEvent).handle(1).waits(),
    driver("cuCtxSynchronize", Sync).role(Role::SyncDevice).waits(),
    driver("cuCtxSynchronize_v2", Sync).role(Role::SyncDevice).handle(1).waits(),
    driver("cuStreamSynchronize", Sync).role(Role::SyncStream).stream(1).waits(),
    driver("cuStreamSynchronize_ptsz", Sync).role(Role::SyncStream).stream(1).waits(),
    driver("cuEventSynchronize", Sync).role(Role::SyncEvent).handle(1).waits(),
    // Events
    runtime("cudaStreamWaitEvent", Event).role(Role::StreamWait).stream(1).handle(2).hot(),
    runtime("cudaStreamWaitEvent_ptsz", Event).role(Role::StreamWait).stream(1).handle(2).hot(),
    runtime("cudaStreamQuery", Event).role(Role::StreamQuery).stream(1).query(),
    runtime("cudaStreamQuery_ptsz", Event).role(Role::StreamQuery).stream(1).query(),
    runtime("cudaEventQuery", Event).role(Role::EventQuery).handle(1).query(),
    runtime("cudaEventRecord", Event).role(Role::EventRecord).handle(1).stream(2).hot(),
    runtime("cudaEventRecord_ptsz", Event).role(Role::EventRecord).handle(1).stream(2).hot(),
    runtime("cudaEventRecordWithFlags", Event).role(Role::EventRecord).handle(1).stream(2).hot(),
    runtime("cudaEventRecordWithFlags_ptsz", Event).role(Role::EventRecord).handle(1).stream(2).hot(),
    driver("cuStreamWaitEvent", Event).role(Role::StreamWait).stream(1).handle(2).hot(),
    driver("cuStreamWaitEvent_ptsz", Event).role(Role::StreamWait).stream(1).handle(2).hot(),
    driver("cuStreamQuery", Event).role(Role::StreamQuery).stream(1).query(),
    driver("cuStreamQuery_ptsz", Event).role(Role::StreamQuery).stream(1).query(),
    driver("cuEventQuery", Event).role(Role::EventQuery).handle(1).query(),
    driver("cuEventRecord", Event).role(Role::EventRecord).handle(1).stream(2).hot(),
    driver("cuEventRecord_ptsz", Event).role(Role::EventRecord).handle(1).stream(2).hot(),
    driver("cuEventRecordWithFlags", Event).role(Role::EventRecord).handle(1).stream(2).hot(),
    driver("cuEventRecordWithFlags_ptsz", Event).role(Role::EventRecord).handle(1).stream(2).hot(),
    // Copies
    copy(runtime("cudaMemcpy", Copy)).kind(4).waits(),
    copy(runtime("cudaMemcpy_ptds", Copy)).kind(4).waits(),
    copy(runtime("cudaMemcpyAsync", Copy)).kind(4).stream(5),
    copy(runtime("cudaMemcpyAsync_ptsz", Copy)).kind(4).stream(5),
    copy_2d(runtime("cudaMemcpy2D", Copy)).waits(),
    copy_2d(runtime("cudaMemcpy2D_ptds", Copy)).waits(),
    copy_2d(runtime("cudaMemcpy2DAsync", Copy)).stream(8),
    copy_2d(runtime("cudaMemcpy2DAsync_ptsz", Copy)).stream(8),
    copy_peer(runtime("cudaMemcpyPeer", Copy)).waits(),
    copy_peer(runtime("cudaMemcpyPeerAsync", Copy)).stream(6),
    copy(driver("cuMemcpy", Copy)).goes(raw::DIRECTION_UNKNOWN).waits(),
    copy(driver("cuMemcpy_ptds", Copy)).goes(raw::DIRECTION_UNKNOWN).waits(),
    copy(driver("cuMemcpyAsync", Copy)).goes(raw::DIRECTION_UNKNOWN).stream(4),
    copy(driver("cuMemcpyAsync_ptsz", Copy)).goes(raw::DIRECTION_UNKNOWN).stream(4),
    copy(driver("cuMemcpyHtoD_v2", Copy)).goes(raw::DIRECTION_HOST_TO_DEVICE).waits(),
    copy(driver("cuMemcpyHtoD_v2_ptds", Copy)).goes(raw::DIRECTION_HOST_TO_DEVICE).waits(),
    copy(driver("cuMemcpyHtoDAsync_v2", Copy)).goes(raw::DIRECTION_HOST_TO_DEVICE).stream(4),
    copy(driver("cuMemcpyHtoDAsync_v2_ptsz", Copy)).goes(raw::DIRECTION_HOST_TO_DEVICE).stream(4),
    copy(driver("cuMemcpyDtoH_v2", Copy)).goes(raw::DIRECTION_DEVICE_TO_HOST).waits(),
    copy(driver("cuMemcpyDtoH_v2_ptds", Copy)).goes(raw::DIRECTION_DEVICE_TO_HOST).waits(),
    copy(driver("cuMemcpyDtoHAsync_v2", Copy)).goes(raw::DIRECTION_DEVICE_TO_HOST).stream(4),
    copy(driver("cuMemcpyDtoHAsync_v2_ptsz", Copy)).goes(raw::DIRECTION_DEVICE_TO_HOST).stream(4),
    copy(driver("cuMemcpyDtoD_v2", Copy)).goes(raw::DIRECTION_DEVICE_TO_DEVICE).waits(),
    copy(driver("cuMemcpyDtoD_v2_ptds", Copy)).goes(raw::DIRECTION_DEVICE_TO_DEVICE).waits(),
    copy(driver("cuMemcpyDtoDAsync_v2", Copy)).goes(raw::DIRECTION_DEVICE_TO_DEVICE).stream(4),
    copy(driver("cuMemcpyDtoDAsync_v2_ptsz", Copy)).goes(raw::DIRECTION_DEVICE_TO_DEVICE).stream(4),
    copy_peer(driver("cuMemcpyPeer", Copy)).waits(),
    copy_peer(driver("cuMemcpyPeerAsync", Copy)).stream(6),
    driver("cuMemcpy2D_v2", Copy)
        .role(Role::Submit)
        .goes(raw::DIRECTION_UNKNOWN)
        .with(raw::RULE_COPY_2D)
        .waits(),
    driver("cuMemcpy2DUnaligned_v2", Copy)
        .role(Role::Submit)
        .goes(raw::DIRECTION_UNKNOWN)
        .with(raw::RULE_COPY_2D)
        .waits(),
    driver("cuMemcpy2DAsync_v2", Copy)
        .role(Role::Submit)
        .goes(raw::DIRECTION_UNKNOWN)
        .with(raw::RULE_COPY_2D)
        .stream(2),
    // Memset
    set(runtime("cudaMemset", Set)).bytes(3),
    set(runtime("cudaMemset_ptds", Set)).bytes(3),
    set(runtime("cudaMemsetAsync", Set)).bytes(3).stream(4),
    set(runtime("cudaMemsetAsync_ptsz", Set)).bytes(3).stream(4),
    set(driver("cuMemsetD8_v2", Set)).bytes(3),
    set(driver("cuMemsetD8Async", Set)).bytes(3).stream(4),
    set(driver("cuMemsetD8Async_ptsz", Set)).bytes(3).stream(4),
    set(driver("cuMemsetD32_v2", Set)).words(3),
    set(driver("cuMemsetD32Async", Set)).words(3).stream(4),
    set(driver("cuMemsetD32Async_ptsz", Set)).words(3).stream(4),
    // Allocation
    alloc(runtime("cudaMalloc", Alloc)),
    alloc(runtime("cudaMallocAsync", Alloc)).stream(3),
    alloc(runtime("cudaMallocAsync_ptsz", Alloc)).stream(3),
    alloc(runtime("cudaMallocFromPoolAsync", Alloc)).aux(3).stream(4),
    alloc(runtime("cudaMallocFromPoolAsync_ptsz", Alloc)).aux(3).stream(4),
    alloc_managed(runtime("cudaMallocManaged", Alloc)),
    alloc(runtime("cudaMallocPitch", Alloc)).pitched(),
    alloc_host(runtime("cudaMallocHost", Alloc)),
    alloc_host(runtime("cudaHostAlloc", Alloc)),
    alloc(driver("cuMemAlloc_v2", Alloc)),
    alloc(driver("cuMemAllocAsync", Alloc)).stream(3),
    alloc(driver("cuMemAllocAsync_ptsz", Alloc)).stream(3),
    alloc(driver("cuMemAllocFromPoolAsync", Alloc)).aux(3).stream(4),
    alloc(driver("cuMemAllocFromPoolAsync_ptsz", Alloc)).aux(3).stream(4),
    alloc_managed(driver("cuMemAllocManaged", Alloc)),
    alloc(driver("cuMemAllocPitch_v2", Alloc)).pitched(),
    alloc_host(driver("cuMemAllocHost_v2", Alloc)),
    alloc_host(driver("cuMemHostAlloc", Alloc)),
    runtime("cudaHostRegister", Alloc).role(Role::RegisterHost).handle(1).bytes(2).state(),
    driver("cuMemHostRegister_v2", Alloc).role(Role::RegisterHost).handle(1).bytes(2).state(),
    alloc(driver("cuArrayCreate_v2", Alloc)).with(raw::RULE_ARRAY),
    alloc(driver("cuArray3DCreate_v2", Alloc)).with(raw::RULE_ARRAY_3D),
    driver("cuMemAddressReserve", Alloc).bytes(2).handle_out(1),
    driver("cuMemCreate", Alloc).role(Role::PhysicalCreate).bytes(2).handle_out(1).state(),
    driver("cuMemMap", Alloc).role(Role::PhysicalMap).bytes(2).handle(1).aux(4).state(),
    driver("cuMemRetainAllocationHandle", Alloc).role(Role::PhysicalRetain).handle_out(1).aux(2).state(),
    // Free
    free(runtime("cudaFree", Free)),
    free(runtime("cudaFreeAsync", Free)).stream(2),
    free(runtime("cudaFreeAsync_ptsz", Free)).stream(2),
    free(runtime("cudaFreeHost", Free)),
    free(driver("cuMemFree_v2", Free)),
    free(driver("cuMemFreeAsync", Free)).stream(2),
    free(driver("cuMemFreeAsync_ptsz", Free)).stream(2),
    free(driver("cuMemFreeHost", Free)),
    free(driver("cuArrayDestroy", Free)),
    runtime("cudaHostUnregister", Free).role(Role::UnregisterHost).handle(1).state(),
    driver("cuMemHostUnregister", Free).role(Role::UnregisterHost).handle(1).state(),
    driver("cuMemAddressFree", Free).bytes(2).handle(1),
    driver("cuMemUnmap", Free).role(Role::PhysicalUnmap).bytes(2).handle(1).state(),
    driver("cuMemRelease", Free).role(Role::PhysicalRelease).handle(1).state(),
    // Graphs
    begin_capture(runtime("cudaStreamBeginCapture", Graph)),
    begin_capture(runtime("cudaStreamBeginCapture_ptsz", Graph)),
    begin_capture(runtime("cudaStreamBeginCaptureToGraph", Graph)),
    begin_capture(runtime("cudaStreamBeginCaptureToGraph_ptsz", Graph)),
    begin_capture(driver("cuStreamBeginCapture", Graph)),
    begin_capture(driver("cuStreamBeginCapture_ptsz", Graph)),
    begin_capture(driver("cuStreamBeginCapture_v2", Graph)),
    begin_capture(driver("cuStreamBeginCapture_v2_ptsz", Graph)),
    begin_capture(driver("cuStreamBeginCaptureToGraph", Graph)),
    begin_capture(driver("cuStreamBeginCaptureToGraph_ptsz", Graph)),
    end_capture(runtime("cudaStreamEndCapture", Graph)),
    end_capture(runtime("cudaStreamEndCapture_ptsz", Graph)),
    end_capture(driver("cuStreamEndCapture", Graph)),
    end_capture(driver("cuStreamEndCapture_ptsz", Graph)),
    instantiate(runtime("cudaGraphInstantiate", Graph)),
    instantiate(runtime("cudaGraphInstantiateWithFlags", Graph)),
    instantiate(runtime("cudaGraphInstantiateWithParams", Graph)),
    instantiate(runtime("cudaGraphInstantiateWithParams_ptsz", Graph)),
    instantiate(driver("cuGraphInstantiate", Graph)),
    instantiate(driver("cuGraphInstantiate_v2", Graph)),
    instantiate(driver("cuGraphInstantiateWithFlags", Graph)),
    instantiate(driver("cuGraphInstantiateWithParams", Graph)),
    instantiate(driver("cuGraphInstantiateWithParams_ptsz", Graph)),
    update(runtime("cudaGraphExecUpdate", Graph)),
    update(driver("cuGraphExecUpdate", Graph)),
    update(driver("cuGraphExecUpdate_v2", Graph)),
    runtime("cudaGraphCreate", Graph).role(Role::GraphCreate).handle_out(1).state(),
    runtime("cudaGraphClone", Graph).role(Role::GraphClone).handle_out(1).aux(2).state(),
    of_graph(runtime("cudaGraphDestroy", Graph), Role::GraphDestroy),
    of_graph(runtime("cudaGraphExecDestroy", Graph), Role::ExecDestroy),
    driver("cuGraphCreate", Graph).role(Role::GraphCreate).handle_out(1).state(),
    driver("cuGraphClone", Graph).role(Role::GraphClone).handle_out(1).aux(2).state(),
    of_graph(driver("cuGraphDestroy", Graph), Role::GraphDestroy),
    of_graph(driver("cuGraphExecDestroy", Graph), Role::ExecDestroy),
    graph_add("cuGraphAddKernelNode", Role::GraphAddKernel).handle_out(5),
    graph_add("cuGraphAddKernelNode_v2", Role::GraphAddKernel).handle_out(5),
    graph_add("cuGraphAddMemcpyNode", Role::GraphAddCopy),
    graph_add("cuGraphAddMemsetNode", Role::GraphAddSet),
    graph_add("cuGraphAddHostNode", Role::GraphAddHost),
    graph_add("cuGraphAddChildGraphNode", Role::GraphAddChild).handle(5),
    // Contexts, modules, functions
    context("cuDevicePrimaryCtxRetain"),
    context("cuCtxCreate_v2"),
    context("cuCtxCreate_v3"),
    context("cuCtxCreate_v4"),
    load_image("cuModuleLoadData"),
    load_image("cuModuleLoadDataEx"),
    load_image("cuModuleLoadFatBinary"),
    load_image("cuLibraryLoadData"),
    load_file("cuModuleLoad"),
    load_file("cuLibraryLoadFromFile"),
    driver("cuLinkAddData_v2", Load).role(Role::Jit).state().slow(1_000),
    driver("cuLinkComplete", Load).role(Role::Jit).state().slow(1_000),
    get_function("cuModuleGetFunction"),
    get_function("cuLibraryGetKernel"),
    driver("cuKernelGetFunction", Load).role(Role::KernelFunction).handle_out(1).aux(2).state(),
    runtime("cudaSetDevice", Other).role(Role::SetDevice).with(raw::RULE_NO_RETURN),
];
