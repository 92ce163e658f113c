// mixed: every probed function a known number of times, each with a size of its own, and some calls that
// fail. The list of calls in the output lets a test check arguments and results one by one.
#include "mixed.h"

#include "commands.h"
#include "gate.h"
#include "options.h"

#define GRID_AND_BLOCK 7, 5, 3, 32, 4, 2
#define DRIVER_SHAPE GRID_AND_BLOCK, SHARED_BYTES

const dim3 mixed_grid = {7, 5, 3}, mixed_block = {32, 4, 2};
char mixed_host[HOST_BYTES];
void *mixed_device, *mixed_other;
cudaStream_t mixed_stream, mixed_side;

static void tell_shape(void) {
    fprintf(truth_more(), ",\"grid\":[%u,%u,%u],\"block\":[%u,%u,%u],\"shared_bytes\":%d", mixed_grid.x,
            mixed_grid.y, mixed_grid.z, mixed_block.x, mixed_block.y, mixed_block.z, SHARED_BYTES);
}

static void launches(void) {
    CUfunction function = mixed_function, stub_function = mixed_stub_function;
    cudaLaunchConfig_t runtime_config = {.gridDim = mixed_grid,
                                         .blockDim = mixed_block,
                                         .dynamicSmemBytes = SHARED_BYTES,
                                         .stream = mixed_stream};
    CUlaunchConfig config = {DRIVER_SHAPE, mixed_stream, NULL, 0},
                   side_config = {DRIVER_SHAPE, mixed_side, NULL, 0};
    RUN(cuLaunchKernel, cudaLaunchKernel, 0, mixed_stream, stub_function, mixed_stub, mixed_grid, mixed_block,
        NULL, SHARED_BYTES, mixed_stream);
    RUN(cuLaunchKernel, cudaLaunchKernel, 0, NULL, stub_function, mixed_stub, mixed_grid, mixed_block, NULL,
        SHARED_BYTES, NULL);
    RUN(cuLaunchKernel_ptsz, cudaLaunchKernel_ptsz, 0, mixed_side, stub_function, mixed_stub, mixed_grid,
        mixed_block, NULL, SHARED_BYTES, mixed_side);
    RUN(cuLaunchKernelEx, cudaLaunchKernelExC, 0, mixed_stream, stub_function, &runtime_config, mixed_stub,
        NULL);
    SAME(cuLaunchKernel, 0, mixed_stream, function, function, DRIVER_SHAPE, mixed_stream, NULL, NULL);
    SAME(cuLaunchKernel_ptsz, 0, NULL, function, function, DRIVER_SHAPE, NULL, NULL, NULL);
    SAME(cuLaunchCooperativeKernel, 0, mixed_stream, function, function, DRIVER_SHAPE, mixed_stream, NULL);
    SAME(cuLaunchCooperativeKernel_ptsz, 0, mixed_side, function, function, DRIVER_SHAPE, mixed_side, NULL);
    SAME(cuLaunchKernelEx, 0, mixed_stream, function, &config, function, NULL, NULL);
    SAME(cuLaunchKernelEx_ptsz, 0, mixed_side, function, &side_config, function, NULL, NULL);
}

static void do_nothing(void *arg) {
    (void)arg;
}

static void host_functions(void) {
    SAME(cudaLaunchHostFunc, 0, mixed_stream, do_nothing, mixed_stream, do_nothing, mixed_host);
    SAME(cudaLaunchHostFunc_ptsz, 0, mixed_side, do_nothing, mixed_side, do_nothing, mixed_host);
    SAME(cuLaunchHostFunc, 0, mixed_stream, do_nothing, mixed_stream, do_nothing, mixed_host);
    SAME(cuLaunchHostFunc_ptsz, 0, mixed_side, do_nothing, mixed_side, do_nothing, mixed_host);
}

static void synchronisation(void) {
    CUcontext context;
    cuCtxGetCurrent(&context);
    SAME(cudaStreamSynchronize, 0, mixed_stream, 0, mixed_stream);
    SAME(cudaStreamSynchronize, 0, NULL, 0, NULL);
    SAME(cudaStreamSynchronize_ptsz, 0, mixed_side, 0, mixed_side);
    SAME(cudaStreamQuery, 0, mixed_stream, 0, mixed_stream);
    SAME(cudaStreamQuery_ptsz, 0, mixed_side, 0, mixed_side);
    SAME(cudaDeviceSynchronize, 0, NULL, 0);
    SAME(cuStreamSynchronize, 0, mixed_stream, 0, mixed_stream);
    SAME(cuStreamSynchronize_ptsz, 0, mixed_side, 0, mixed_side);
    SAME(cuStreamSynchronize_ptsz, 0, NULL, 0, NULL);
    SAME(cuStreamQuery, 0, mixed_stream, 0, mixed_stream);
    SAME(cuStreamQuery_ptsz, 0, mixed_side, 0, mixed_side);
    SAME(cuCtxSynchronize, 0, NULL, 0);
    SAME(cuCtxSynchronize_v2, 0, NULL, context, context);
}

static void events(void) {
    cudaEvent_t start, end;
    float milliseconds;
    SAME(cudaEventCreate, 0, NULL, start, &start);
    SAME(cudaEventCreateWithFlags, 0, NULL, end, &end, CU_EVENT_BLOCKING_SYNC);
    SAME(cudaEventRecord, 0, mixed_stream, start, start, mixed_stream);
    SAME(cudaEventRecordWithFlags, 0, mixed_stream, end, end, mixed_stream, 0);
    SAME(cudaEventSynchronize, 0, NULL, end, end);
    SAME(cudaEventQuery, 0, NULL, end, end);
    SAME(cudaEventElapsedTime, 0, NULL, start, &milliseconds, start, end);
    SAME(cudaStreamWaitEvent, 0, mixed_stream, end, mixed_stream, end, 0);
    SAME(cudaStreamWaitEvent_ptsz, 0, mixed_side, end, mixed_side, end, 0);
    SAME(cudaEventRecord_ptsz, 0, mixed_side, end, end, mixed_side);
    SAME(cudaEventRecordWithFlags_ptsz, 0, mixed_side, start, start, mixed_side, 0);
    SAME(cudaEventDestroy, 0, NULL, start, start);
    SAME(cudaEventDestroy, 0, NULL, end, end);
    SAME(cuEventCreate, 0, NULL, start, &start, 0);
    SAME(cuEventRecord, 0, mixed_stream, start, start, mixed_stream);
    SAME(cuEventRecordWithFlags, 0, mixed_stream, start, start, mixed_stream, 0);
    SAME(cuStreamWaitEvent, 0, mixed_stream, start, mixed_stream, start, 0);
    SAME(cuStreamWaitEvent_ptsz, 0, mixed_side, start, mixed_side, start, 0);
    SAME(cuEventSynchronize, 0, NULL, start, start);
    SAME(cuEventQuery, 0, NULL, start, start);
    SAME(cuEventRecord_ptsz, 0, mixed_side, start, start, mixed_side);
    SAME(cuEventRecordWithFlags_ptsz, 0, mixed_side, start, start, mixed_side, 0);
    SAME(cuEventDestroy_v2, 0, NULL, start, start);
}

static void failing_calls(void) {
    void *pointer = NULL;
    CUdeviceptr address = 0;
    SAME(cudaMalloc, 1ull << 50, NULL, pointer, &pointer, 1ull << 50);
    SAME(cuMemAlloc_v2, 1ull << 51, NULL, address, &address, 1ull << 51);
    SAME(cudaFree, 0, NULL, 0x7f7f7f7f7000, (void *)0x7f7f7f7f7000);
    SAME(cuMemFree_v2, 0, NULL, 0x7f7f7f7f8000, 0x7f7f7f7f8000);
    COPY(cudaMemcpy, 0x4001, NULL, NULL, mixed_host, "host_to_device", NULL, mixed_host, 0x4001,
         cudaMemcpyHostToDevice);
    SAME(cuLaunchKernel, 0, NULL, 0, NULL, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL);
    RUN(cuLaunchKernel, cudaLaunchKernel, 0, NULL, mixed_stub_function, mixed_stub, (dim3){0, 1, 1},
        mixed_block, NULL, 0, NULL);
    cudaGetLastError();
}

// The runtime asks for its context when it is first called, and when it is told the device.
static void list_context(const char *api) {
    CUcontext context;
    cuCtxGetCurrent(&context);
    truth_call((struct call){.op = OP_cuDevicePrimaryCtxRetain, .api = api, .pointer = (uint64_t)context});
}

int command_mixed(char **arguments) {
    static const struct option none[] = {END};
    options_parse("mixed", "every probed function, with distinct sizes", arguments, none);
    // Not workload_begin: what the runtime does when it begins belongs to the list.
    truth_begin();
    gate_wait();
    kernels_register();
    list_context("cudaGetDeviceCount");
    SAME(cudaSetDevice, 0, NULL, 0, 0);
    list_context("cudaSetDevice");
    SAME(cudaStreamCreate, 0, NULL, mixed_stream, &mixed_stream);
    SAME(cudaStreamCreate, 0, NULL, mixed_side, &mixed_side);
    SAME(cudaMalloc, HOST_BYTES, NULL, mixed_device, &mixed_device, HOST_BYTES);
    SAME(cudaMalloc, HOST_BYTES, NULL, mixed_other, &mixed_other, HOST_BYTES);
    mixed_functions();
    mixed_memory();
    mixed_copies();
    launches();
    host_functions();
    synchronisation();
    events();
    mixed_captures();
    mixed_graphs();
    mixed_modules();
    failing_calls();
    SAME(cudaFree, 0, NULL, mixed_other, mixed_other);
    SAME(cudaFree, 0, NULL, mixed_device, mixed_device);
    SAME(cudaStreamDestroy, 0, NULL, mixed_side, mixed_side);
    SAME(cudaStreamDestroy, 0, NULL, mixed_stream, mixed_stream);
    tell_shape();
    truth_print("mixed");
    return 0;
}
