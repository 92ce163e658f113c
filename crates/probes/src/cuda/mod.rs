//! CUDA calls. Launches are probed at the driver, where every one passes once; synchronisation, copies and memory
//! at the runtime and at the driver, where the outermost call is the one that counts.

use crate::probe::{Args, Attach, Function, Library, Probe};
use crate::raw::{bpf_object, cuda as raw};
use gpuwhy_model::{Family, Layer};

pub(crate) static PROBE: Probe = Probe {
    name: "cuda",
    about: "CUDA launches, synchronisation, copies and memory, on the runtime and the driver",
    object: bpf_object!("cuda"),
    attach: Attach::Functions(FUNCTIONS),
    always: false,
    cost: "two traps a call; one where a session probe skips a nested call's return",
};

const MICROSECOND: u64 = 1_000;
/// `cudaErrorNotReady` and `CUDA_ERROR_NOT_READY`: a query's ordinary answer.
const NOT_READY: i32 = 600;

const fn function(library: Library, symbol: &'static str, family: Family, slow_ns: u64) -> Function {
    Function {
        symbol,
        library,
        layer: Layer::Cuda,
        family,
        waits_for_gpu: false,
        args: Args { bytes: 0, stream: 0, handle: 0, flags: 0 },
        benign_ret: 0,
        slow_ns,
    }
}

const fn driver(symbol: &'static str, family: Family) -> Function {
    function(Library::CudaDriver, symbol, family, 200 * MICROSECOND)
}

const fn runtime(symbol: &'static str, family: Family) -> Function {
    function(Library::CudaRuntime, symbol, family, 200 * MICROSECOND)
}

impl Function {
    const fn bytes(mut self, number: u8) -> Self {
        self.args.bytes = number;
        self
    }

    /// Bytes are the product of this argument and the next: width and height.
    const fn area(mut self, number: u8) -> Self {
        self.args.bytes = number;
        self.with(raw::RULE_BYTES_PRODUCT)
    }

    /// The argument counts words of four bytes.
    const fn words(mut self, number: u8) -> Self {
        self.args.bytes = number;
        self.with(raw::RULE_BYTES_WORDS)
    }

    /// Arguments from the 7th on are on the stack.
    const fn stream(mut self, number: u8) -> Self {
        self.args.stream = number;
        if number > 6 { self.with(raw::RULE_STACK_ARGS) } else { self }
    }

    const fn handle(mut self, number: u8) -> Self {
        self.args.handle = number;
        self
    }

    /// The argument points to where the call puts the handle.
    const fn handle_out(mut self, number: u8) -> Self {
        self.args.handle = number;
        self.with(raw::RULE_HANDLE_OUT)
    }

    const fn with(mut self, flag: u32) -> Self {
        self.args.flags |= flag;
        self
    }

    const fn waits(mut self) -> Self {
        self.waits_for_gpu = true;
        self.slow_ns = 1_000 * MICROSECOND;
        self
    }

    const fn query(mut self) -> Self {
        self.benign_ret = NOT_READY;
        self.with(raw::RULE_HOT)
    }

    const fn hot(self) -> Self {
        self.with(raw::RULE_HOT)
    }
}

/// `cuLaunchKernel(f, gx, gy, gz, bx, by, bz, shared, stream, ...)`: the last three are on the stack.
const fn launch(symbol: &'static str) -> Function {
    driver(symbol, Family::Launch).handle(1).stream(9).with(raw::RULE_LAUNCH_ARGS).hot()
}

/// `cuLaunchKernelEx(config, f, ...)`: the configuration holds grid, block and stream.
const fn launch_ex(symbol: &'static str) -> Function {
    driver(symbol, Family::Launch).handle(2).with(raw::RULE_LAUNCH_CONFIG).hot()
}

use Family::{Alloc, Copy, Event, Free, Graph, Set, Sync};

static FUNCTIONS: &[Function] = &[
    launch("cuLaunchKernel"),
    launch("cuLaunchKernel_ptsz"),
    launch("cuLaunchCooperativeKernel"),
    launch("cuLaunchCooperativeKernel_ptsz"),
    launch_ex("cuLaunchKernelEx"),
    launch_ex("cuLaunchKernelEx_ptsz"),
    runtime("cudaGraphLaunch", Graph).handle(1).stream(2).hot(),
    runtime("cudaGraphLaunch_ptsz", Graph).handle(1).stream(2).hot(),
    driver("cuGraphLaunch", Graph).handle(1).stream(2).hot(),
    driver("cuGraphLaunch_ptsz", Graph).handle(1).stream(2).hot(),
    // Synchronisation
    runtime("cudaDeviceSynchronize", Sync).waits(),
    runtime("cudaStreamSynchronize", Sync).stream(1).waits(),
    runtime("cudaStreamSynchronize_ptsz", Sync).stream(1).waits(),
    runtime("cudaEventSynchronize", Sync).handle(1).waits(),
    runtime("cudaStreamWaitEvent", Event).stream(1).handle(2).hot(),
    runtime("cudaStreamWaitEvent_ptsz", Event).stream(1).handle(2).hot(),
    runtime("cudaStreamQuery", Event).stream(1).query(),
    runtime("cudaStreamQuery_ptsz", Event).stream(1).query(),
    runtime("cudaEventQuery", Event).handle(1).query(),
    runtime("cudaEventRecord", Event).handle(1).stream(2).hot(),
    runtime("cudaEventRecord_ptsz", Event).handle(1).stream(2).hot(),
    driver("cuCtxSynchronize", Sync).waits(),
    driver("cuCtxSynchronize_v2", Sync).handle(1).waits(),
    driver("cuStreamSynchronize", Sync).stream(1).waits(),
    driver("cuStreamSynchronize_ptsz", Sync).stream(1).waits(),
    driver("cuEventSynchronize", Sync).handle(1).waits(),
    driver("cuStreamWaitEvent", Event).stream(1).handle(2).hot(),
    driver("cuStreamWaitEvent_ptsz", Event).stream(1).handle(2).hot(),
    driver("cuStreamQuery", Event).stream(1).query(),
    driver("cuStreamQuery_ptsz", Event).stream(1).query(),
    driver("cuEventQuery", Event).handle(1).query(),
    driver("cuEventRecord", Event).handle(1).stream(2).hot(),
    driver("cuEventRecord_ptsz", Event).handle(1).stream(2).hot(),
    // Copies
    runtime("cudaMemcpy", Copy).bytes(3).handle(1).waits(),
    runtime("cudaMemcpy_ptds", Copy).bytes(3).handle(1).waits(),
    runtime("cudaMemcpyAsync", Copy).bytes(3).handle(1).stream(5),
    runtime("cudaMemcpyAsync_ptsz", Copy).bytes(3).handle(1).stream(5),
    runtime("cudaMemcpy2D", Copy).area(5).handle(1).waits(),
    runtime("cudaMemcpy2D_ptds", Copy).area(5).handle(1).waits(),
    runtime("cudaMemcpy2DAsync", Copy).area(5).handle(1).stream(8),
    runtime("cudaMemcpy2DAsync_ptsz", Copy).area(5).handle(1).stream(8),
    runtime("cudaMemcpyPeer", Copy).bytes(5).handle(1).waits(),
    runtime("cudaMemcpyPeerAsync", Copy).bytes(5).handle(1).stream(6),
    driver("cuMemcpy", Copy).bytes(3).handle(1).waits(),
    driver("cuMemcpy_ptds", Copy).bytes(3).handle(1).waits(),
    driver("cuMemcpyAsync", Copy).bytes(3).handle(1).stream(4),
    driver("cuMemcpyAsync_ptsz", Copy).bytes(3).handle(1).stream(4),
    driver("cuMemcpyHtoD_v2", Copy).bytes(3).handle(1).waits(),
    driver("cuMemcpyHtoD_v2_ptds", Copy).bytes(3).handle(1).waits(),
    driver("cuMemcpyDtoH_v2", Copy).bytes(3).handle(1).waits(),
    driver("cuMemcpyDtoH_v2_ptds", Copy).bytes(3).handle(1).waits(),
    driver("cuMemcpyDtoD_v2", Copy).bytes(3).handle(1).waits(),
    driver("cuMemcpyDtoD_v2_ptds", Copy).bytes(3).handle(1).waits(),
    driver("cuMemcpyHtoDAsync_v2", Copy).bytes(3).handle(1).stream(4),
    driver("cuMemcpyHtoDAsync_v2_ptsz", Copy).bytes(3).handle(1).stream(4),
    driver("cuMemcpyDtoHAsync_v2", Copy).bytes(3).handle(1).stream(4),
    driver("cuMemcpyDtoHAsync_v2_ptsz", Copy).bytes(3).handle(1).stream(4),
    driver("cuMemcpyDtoDAsync_v2", Copy).bytes(3).handle(1).stream(4),
    driver("cuMemcpyDtoDAsync_v2_ptsz", Copy).bytes(3).handle(1).stream(4),
    driver("cuMemcpyPeer", Copy).bytes(5).handle(1).waits(),
    driver("cuMemcpyPeerAsync", Copy).bytes(5).handle(1).stream(6),
    driver("cuMemcpy2D_v2", Copy).with(raw::RULE_COPY_2D).waits(),
    driver("cuMemcpy2DAsync_v2", Copy).stream(2).with(raw::RULE_COPY_2D),
    // Memset
    runtime("cudaMemset", Set).bytes(3).handle(1),
    runtime("cudaMemset_ptds", Set).bytes(3).handle(1),
    runtime("cudaMemsetAsync", Set).bytes(3).handle(1).stream(4),
    runtime("cudaMemsetAsync_ptsz", Set).bytes(3).handle(1).stream(4),
    driver("cuMemsetD8_v2", Set).bytes(3).handle(1),
    driver("cuMemsetD8Async", Set).bytes(3).handle(1).stream(4),
    driver("cuMemsetD8Async_ptsz", Set).bytes(3).handle(1).stream(4),
    driver("cuMemsetD32_v2", Set).words(3).handle(1),
    driver("cuMemsetD32Async", Set).words(3).handle(1).stream(4),
    driver("cuMemsetD32Async_ptsz", Set).words(3).handle(1).stream(4),
    // Allocation
    runtime("cudaMalloc", Alloc).bytes(2).handle_out(1),
    runtime("cudaMallocAsync", Alloc).bytes(2).handle_out(1).stream(3),
    runtime("cudaMallocAsync_ptsz", Alloc).bytes(2).handle_out(1).stream(3),
    runtime("cudaMallocFromPoolAsync", Alloc).bytes(2).handle_out(1).stream(4),
    runtime("cudaMallocFromPoolAsync_ptsz", Alloc).bytes(2).handle_out(1).stream(4),
    runtime("cudaMallocManaged", Alloc).bytes(2).handle_out(1),
    runtime("cudaMallocPitch", Alloc).area(3).handle_out(1),
    runtime("cudaMallocHost", Alloc).bytes(2).handle_out(1),
    runtime("cudaHostAlloc", Alloc).bytes(2).handle_out(1),
    driver("cuMemAlloc_v2", Alloc).bytes(2).handle_out(1),
    driver("cuMemAllocAsync", Alloc).bytes(2).handle_out(1).stream(3),
    driver("cuMemAllocAsync_ptsz", Alloc).bytes(2).handle_out(1).stream(3),
    driver("cuMemAllocFromPoolAsync", Alloc).bytes(2).handle_out(1).stream(4),
    driver("cuMemAllocFromPoolAsync_ptsz", Alloc).bytes(2).handle_out(1).stream(4),
    driver("cuMemAllocManaged", Alloc).bytes(2).handle_out(1),
    driver("cuMemAllocPitch_v2", Alloc).area(3).handle_out(1),
    driver("cuMemAllocHost_v2", Alloc).bytes(2).handle_out(1),
    driver("cuMemHostAlloc", Alloc).bytes(2).handle_out(1),
    driver("cuMemAddressReserve", Alloc).bytes(2).handle_out(1),
    driver("cuMemCreate", Alloc).bytes(2).handle_out(1),
    driver("cuMemMap", Alloc).bytes(2).handle(1),
    // Free
    runtime("cudaFree", Free).handle(1),
    runtime("cudaFreeAsync", Free).handle(1).stream(2),
    runtime("cudaFreeAsync_ptsz", Free).handle(1).stream(2),
    runtime("cudaFreeHost", Free).handle(1),
    driver("cuMemFree_v2", Free).handle(1),
    driver("cuMemFreeAsync", Free).handle(1).stream(2),
    driver("cuMemFreeAsync_ptsz", Free).handle(1).stream(2),
    driver("cuMemFreeHost", Free).handle(1),
    driver("cuMemAddressFree", Free).bytes(2).handle(1),
    driver("cuMemUnmap", Free).bytes(2).handle(1),
    driver("cuMemRelease", Free).handle(1),
];
