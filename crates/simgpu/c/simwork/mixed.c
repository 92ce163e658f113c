// mixed: every probed function a known number of times, each with a size of its own, and some calls that
// fail. The list of calls in the output lets a test check arguments and results one by one.
#include <stdlib.h>

#include "commands.h"
#include "kernels.h"
#include "options.h"
#include "truth.h"

// Calls `function`, which counts as `op`. `pointer` is read after the call: it may be what the call returned.
#define RUN(op, function, bytes, stream, pointer, ...)                                                       \
    do {                                                                                                     \
        int64_t run_result = function(__VA_ARGS__);                                                          \
        truth_call(OP_##op, #function, bytes, stream, (uint64_t)(pointer), run_result);                      \
    } while (0)
#define SAME(function, bytes, stream, pointer, ...)                                                          \
    RUN(function, function, bytes, stream, pointer, __VA_ARGS__)

static const dim3 grid = {7, 5, 3}, block = {32, 4, 2};
static char host[1 << 20];
static void *device, *other_device;
static cudaStream_t stream;

static void runtime_memory(void) {
    void *pointer = NULL;
    size_t pitch;
    SAME(cudaMalloc, 0x10100, NULL, pointer, &pointer, 0x10100);
    SAME(cudaFree, 0, NULL, pointer, pointer);
    SAME(cudaMallocAsync, 0x10200, stream, pointer, &pointer, 0x10200, stream);
    SAME(cudaFreeAsync, 0, stream, pointer, pointer, stream);
    SAME(cudaMallocAsync_ptsz, 0x10300, NULL, pointer, &pointer, 0x10300, NULL);
    SAME(cudaFreeAsync_ptsz, 0, NULL, pointer, pointer, NULL);
    SAME(cudaMallocManaged, 0x10400, NULL, pointer, &pointer, 0x10400, 1);
    SAME(cudaFree, 0, NULL, pointer, pointer);
    SAME(cudaMallocPitch, 500 * 20, NULL, pointer, &pointer, &pitch, 500, 20);
    SAME(cudaFree, 0, NULL, pointer, pointer);
    SAME(cudaMallocHost, 0x10500, NULL, pointer, &pointer, 0x10500);
    SAME(cudaFreeHost, 0, NULL, pointer, pointer);
    SAME(cudaHostAlloc, 0x10600, NULL, pointer, &pointer, 0x10600, 0);
    SAME(cudaFreeHost, 0, NULL, pointer, pointer);
    SAME(cudaFree, 0, NULL, NULL, NULL);
}

static void driver_memory(void) {
    CUdeviceptr pointer = 0;
    CUmemGenericAllocationHandle handle = 0;
    void *pinned = NULL;
    size_t pitch;
    SAME(cuMemAlloc_v2, 0x20100, NULL, pointer, &pointer, 0x20100);
    SAME(cuMemFree_v2, 0, NULL, pointer, pointer);
    SAME(cuMemAllocAsync, 0x20200, stream, pointer, &pointer, 0x20200, stream);
    SAME(cuMemFreeAsync, 0, stream, pointer, pointer, stream);
    SAME(cuMemAllocAsync_ptsz, 0x20300, NULL, pointer, &pointer, 0x20300, NULL);
    SAME(cuMemFreeAsync_ptsz, 0, NULL, pointer, pointer, NULL);
    SAME(cuMemAllocManaged, 0x20400, NULL, pointer, &pointer, 0x20400, 1);
    SAME(cuMemFree_v2, 0, NULL, pointer, pointer);
    SAME(cuMemAllocPitch_v2, 700 * 30, NULL, pointer, &pointer, &pitch, 700, 30, 4);
    SAME(cuMemFree_v2, 0, NULL, pointer, pointer);
    SAME(cuMemAllocHost_v2, 0x20500, NULL, pinned, &pinned, 0x20500);
    SAME(cuMemFreeHost, 0, NULL, pinned, pinned);
    SAME(cuMemHostAlloc, 0x20600, NULL, pinned, &pinned, 0x20600, 0);
    SAME(cuMemFreeHost, 0, NULL, pinned, pinned);
    SAME(cuMemAddressReserve, 0x200000, NULL, pointer, &pointer, 0x200000, 0, 0, 0);
    SAME(cuMemCreate, 0x200000, NULL, handle, &handle, 0x200000, NULL, 0);
    SAME(cuMemMap, 0x200000, NULL, pointer, pointer, 0x200000, 0, handle, 0);
    SAME(cuMemSetAccess, 0x200000, NULL, pointer, pointer, 0x200000, NULL, 0);
    SAME(cuMemUnmap, 0x200000, NULL, pointer, pointer, 0x200000);
    SAME(cuMemRelease, 0, NULL, handle, handle);
    SAME(cuMemAddressFree, 0x200000, NULL, pointer, pointer, 0x200000);
}

static void runtime_copies(void) {
    SAME(cudaMemcpy, 0x1001, NULL, device, device, host, 0x1001, cudaMemcpyHostToDevice);
    SAME(cudaMemcpy, 0x1002, NULL, host, host, device, 0x1002, cudaMemcpyDeviceToHost);
    SAME(cudaMemcpy, 0x1003, NULL, device, device, other_device, 0x1003, cudaMemcpyDeviceToDevice);
    SAME(cudaMemcpy, 0x1004, NULL, device, device, host, 0x1004, cudaMemcpyDefault);
    SAME(cudaMemcpy_ptds, 0x1005, NULL, device, device, host, 0x1005, cudaMemcpyHostToDevice);
    SAME(cudaMemcpyAsync, 0x1011, stream, device, device, host, 0x1011, cudaMemcpyHostToDevice, stream);
    SAME(cudaMemcpyAsync, 0x1012, stream, host, host, device, 0x1012, cudaMemcpyDeviceToHost, stream);
    SAME(cudaMemcpyAsync, 0x1013, stream, device, device, other_device, 0x1013, cudaMemcpyDeviceToDevice,
         stream);
    SAME(cudaMemcpyAsync, 0x1014, NULL, device, device, host, 0x1014, cudaMemcpyDefault, NULL);
    SAME(cudaMemcpyAsync_ptsz, 0x1015, NULL, device, device, host, 0x1015, cudaMemcpyHostToDevice, NULL);
    SAME(cudaMemcpy2D, 100 * 11, NULL, device, device, 512, host, 100, 100, 11, cudaMemcpyHostToDevice);
    SAME(cudaMemcpy2DAsync, 100 * 12, stream, device, device, 512, host, 100, 100, 12, cudaMemcpyHostToDevice,
         stream);
    SAME(cudaMemcpyPeer, 0x1021, NULL, device, device, 0, other_device, 0, 0x1021);
    SAME(cudaMemcpyPeerAsync, 0x1022, stream, device, device, 0, other_device, 0, 0x1022, stream);
    SAME(cudaMemset, 0x1031, NULL, device, device, 0, 0x1031);
    SAME(cudaMemset_ptds, 0x1032, NULL, device, device, 0, 0x1032);
    SAME(cudaMemsetAsync, 0x1033, stream, device, device, 0, 0x1033, stream);
    SAME(cudaMemsetAsync_ptsz, 0x1034, NULL, device, device, 0, 0x1034, NULL);
}

static void driver_copies(void) {
    CUdeviceptr to = (CUdeviceptr)device, from = (CUdeviceptr)other_device;
    CUDA_MEMCPY2D shape = {.srcMemoryType = CU_MEMORYTYPE_HOST,
                           .srcHost = host,
                           .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                           .dstDevice = to,
                           .WidthInBytes = 200,
                           .Height = 13};
    SAME(cuMemcpy, 0x2001, NULL, to, to, from, 0x2001);
    SAME(cuMemcpy_ptds, 0x2002, NULL, to, to, from, 0x2002);
    SAME(cuMemcpyAsync, 0x2003, stream, to, to, from, 0x2003, stream);
    SAME(cuMemcpyAsync_ptsz, 0x2004, NULL, to, to, from, 0x2004, NULL);
    SAME(cuMemcpyHtoD_v2, 0x2011, NULL, to, to, host, 0x2011);
    SAME(cuMemcpyHtoD_v2_ptds, 0x2012, NULL, to, to, host, 0x2012);
    SAME(cuMemcpyDtoH_v2, 0x2013, NULL, host, host, from, 0x2013);
    SAME(cuMemcpyDtoH_v2_ptds, 0x2014, NULL, host, host, from, 0x2014);
    SAME(cuMemcpyDtoD_v2, 0x2015, NULL, to, to, from, 0x2015);
    SAME(cuMemcpyDtoD_v2_ptds, 0x2016, NULL, to, to, from, 0x2016);
    SAME(cuMemcpyHtoDAsync_v2, 0x2021, stream, to, to, host, 0x2021, stream);
    SAME(cuMemcpyHtoDAsync_v2_ptsz, 0x2022, stream, to, to, host, 0x2022, stream);
    SAME(cuMemcpyDtoHAsync_v2, 0x2023, stream, host, host, from, 0x2023, stream);
    SAME(cuMemcpyDtoHAsync_v2_ptsz, 0x2024, stream, host, host, from, 0x2024, stream);
    SAME(cuMemcpyDtoDAsync_v2, 0x2025, stream, to, to, from, 0x2025, stream);
    SAME(cuMemcpyDtoDAsync_v2_ptsz, 0x2026, stream, to, to, from, 0x2026, stream);
    SAME(cuMemcpyPeer, 0x2031, NULL, to, to, NULL, from, NULL, 0x2031);
    SAME(cuMemcpyPeerAsync, 0x2032, stream, to, to, NULL, from, NULL, 0x2032, stream);
    SAME(cuMemcpy2D_v2, 200 * 13, NULL, to, &shape);
    SAME(cuMemcpy2DAsync_v2, 200 * 13, stream, to, &shape, stream);
    SAME(cuMemsetD8_v2, 0x2041, NULL, to, to, 0, 0x2041);
    SAME(cuMemsetD8Async, 0x2042, stream, to, to, 0, 0x2042, stream);
    SAME(cuMemsetD32_v2, 0x300 * 4, NULL, to, to, 0, 0x300);
    SAME(cuMemsetD32Async, 0x301 * 4, stream, to, to, 0, 0x301, stream);
}

static void launches(void) {
    const void *stub = kernels_stub(KERNEL_MATMUL);
    CUfunction function = kernels_function(KERNEL_MATMUL);
    cudaLaunchConfig_t runtime_config = {.gridDim = grid, .blockDim = block, .stream = stream};
    CUlaunchConfig config = {7, 5, 3, 32, 4, 2, 0, stream, NULL, 0};
    kernels_first_use(VIA_RUNTIME, KERNEL_MATMUL);
    RUN(cuLaunchKernel, cudaLaunchKernel, 0, stream, 0, stub, grid, block, NULL, 0, stream);
    RUN(cuLaunchKernel, cudaLaunchKernel, 0, NULL, 0, stub, grid, block, NULL, 0, NULL);
    RUN(cuLaunchKernel_ptsz, cudaLaunchKernel_ptsz, 0, NULL, 0, stub, grid, block, NULL, 0, NULL);
    RUN(cuLaunchKernelEx, cudaLaunchKernelExC, 0, stream, 0, &runtime_config, stub, NULL);
    SAME(cuLaunchKernel, 0, stream, function, function, 7, 5, 3, 32, 4, 2, 0, stream, NULL, NULL);
    SAME(cuLaunchKernel_ptsz, 0, NULL, function, function, 7, 5, 3, 32, 4, 2, 0, NULL, NULL, NULL);
    SAME(cuLaunchCooperativeKernel, 0, stream, function, function, 7, 5, 3, 32, 4, 2, 0, stream, NULL);
    SAME(cuLaunchKernelEx, 0, stream, function, &config, function, NULL, NULL);
    SAME(cuLaunchKernelEx_ptsz, 0, stream, function, &config, function, NULL, NULL);
}

static void synchronisation(void) {
    SAME(cudaStreamSynchronize, 0, stream, 0, stream);
    SAME(cudaStreamSynchronize, 0, NULL, 0, NULL);
    SAME(cudaStreamSynchronize_ptsz, 0, NULL, 0, NULL);
    SAME(cudaStreamQuery, 0, stream, 0, stream);
    SAME(cudaDeviceSynchronize, 0, NULL, 0);
    SAME(cuStreamSynchronize, 0, stream, 0, stream);
    SAME(cuStreamSynchronize_ptsz, 0, NULL, 0, NULL);
    SAME(cuStreamQuery, 0, stream, 0, stream);
    SAME(cuStreamQuery_ptsz, 0, NULL, 0, NULL);
    SAME(cuCtxSynchronize, 0, NULL, 0);
    SAME(cuCtxSynchronize_v2, 0, NULL, 0, NULL);
}

static void events(void) {
    cudaEvent_t start, end;
    float milliseconds;
    SAME(cudaEventCreate, 0, NULL, start, &start);
    SAME(cudaEventCreateWithFlags, 0, NULL, end, &end, CU_EVENT_BLOCKING_SYNC);
    SAME(cudaEventRecord, 0, stream, start, start, stream);
    SAME(cudaEventRecord, 0, stream, end, end, stream);
    SAME(cudaEventSynchronize, 0, NULL, end, end);
    SAME(cudaEventQuery, 0, NULL, end, end);
    SAME(cudaEventElapsedTime, 0, NULL, start, &milliseconds, start, end);
    SAME(cudaStreamWaitEvent, 0, stream, end, stream, end, 0);
    SAME(cudaEventRecord_ptsz, 0, NULL, end, end, NULL);
    SAME(cudaEventDestroy, 0, NULL, start, start);
    SAME(cudaEventDestroy, 0, NULL, end, end);
    SAME(cuEventCreate, 0, NULL, start, &start, 0);
    SAME(cuEventRecord, 0, stream, start, start, stream);
    SAME(cuStreamWaitEvent, 0, NULL, start, NULL, start, 0);
    SAME(cuEventSynchronize, 0, NULL, start, start);
    SAME(cuEventQuery, 0, NULL, start, start);
    SAME(cuEventRecord_ptsz, 0, NULL, start, start, NULL);
    SAME(cuEventDestroy_v2, 0, NULL, start, start);
}

static void graphs(void) {
    cudaGraph_t graph, second;
    cudaGraphExec_t executable, other;
    cudaGraphExecUpdateResultInfo update;
    size_t nodes = 0;
    int capturing;
    CUfunction function = kernels_function(KERNEL_SOFTMAX);
    SAME(cudaStreamBeginCapture, 0, stream, 0, stream, 0);
    RUN(cuLaunchKernel, cudaLaunchKernel, 0, stream, 0, kernels_stub(KERNEL_MATMUL), grid, block, NULL, 0,
        stream);
    SAME(cudaMemsetAsync, 0x3001, stream, device, device, 0, 0x3001, stream);
    SAME(cudaStreamIsCapturing, 0, stream, capturing, stream, &capturing);
    SAME(cudaStreamEndCapture, 0, stream, graph, stream, &graph);
    SAME(cudaGraphGetNodes, 0, NULL, nodes, graph, NULL, &nodes);
    SAME(cudaGraphInstantiate, 0, NULL, executable, &executable, graph, 0);
    SAME(cudaGraphInstantiateWithFlags, 0, NULL, other, &other, graph, 0);
    SAME(cudaGraphLaunch, 0, stream, executable, executable, stream);
    SAME(cudaGraphLaunch, 0, NULL, other, other, NULL);
    SAME(cudaGraphExecUpdate, 0, NULL, executable, executable, graph, &update);
    SAME(cudaGraphExecDestroy, 0, NULL, other, other);
    SAME(cuStreamBeginCapture_v2, 0, stream, 0, stream, 0);
    SAME(cuLaunchKernel, 0, stream, function, function, 1, 1, 1, 64, 1, 1, 0, stream, NULL, NULL);
    SAME(cuStreamEndCapture, 0, stream, second, stream, &second);
    SAME(cudaGraphExecUpdate, 0, NULL, executable, executable, second, &update); // fails: another shape
    SAME(cuGraphInstantiateWithFlags, 0, NULL, other, &other, second, 0);
    SAME(cuGraphLaunch, 0, stream, other, other, stream);
    SAME(cuGraphExecUpdate_v2, 0, NULL, other, other, second, &update);
    SAME(cuGraphExecDestroy, 0, NULL, other, other);
    SAME(cuGraphDestroy, 0, NULL, second, second);
    SAME(cudaGraphExecDestroy, 0, NULL, executable, executable);
    SAME(cudaGraphDestroy, 0, NULL, graph, graph);
}

static void failing_calls(void) {
    void *pointer = NULL;
    CUdeviceptr address = 0;
    SAME(cudaMalloc, 1ull << 50, NULL, pointer, &pointer, 1ull << 50);
    SAME(cuMemAlloc_v2, 1ull << 51, NULL, address, &address, 1ull << 51);
    SAME(cudaFree, 0, NULL, 0x7f7f7f7f7000, (void *)0x7f7f7f7f7000);
    SAME(cuMemFree_v2, 0, NULL, 0x7f7f7f7f8000, 0x7f7f7f7f8000);
    SAME(cudaMemcpy, 0x4001, NULL, 0, NULL, host, 0x4001, cudaMemcpyHostToDevice);
    SAME(cuLaunchKernel, 0, NULL, 0, NULL, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL);
    RUN(cuLaunchKernel, cudaLaunchKernel, 0, NULL, 0, kernels_stub(KERNEL_MATMUL), (dim3){0, 1, 1}, block,
        NULL, 0, NULL);
    cudaGetLastError();
}

int command_mixed(char **arguments) {
    static const struct option none[] = {END};
    options_parse("mixed", "every probed function, with distinct sizes", arguments, none);
    workload_begin();
    kernels_load_module();
    SAME(cudaStreamCreate, 0, NULL, stream, &stream);
    SAME(cudaMalloc, sizeof host, NULL, device, &device, sizeof host);
    SAME(cudaMalloc, sizeof host, NULL, other_device, &other_device, sizeof host);
    runtime_memory();
    driver_memory();
    runtime_copies();
    driver_copies();
    launches();
    synchronisation();
    events();
    graphs();
    failing_calls();
    SAME(cudaFree, 0, NULL, other_device, other_device);
    SAME(cudaFree, 0, NULL, device, device);
    SAME(cudaStreamDestroy, 0, NULL, stream, stream);
    truth_print("mixed");
    return 0;
}
