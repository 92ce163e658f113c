// mixed: every probed function a known number of times, each with a size of its own, and some calls that
// fail. The list of calls in the output lets a test check arguments and results one by one.
#include "mixed.h"

#include "commands.h"
#include "options.h"

static const dim3 grid = {7, 5, 3}, block = {32, 4, 2};
char mixed_host[HOST_BYTES];
void *mixed_device, *mixed_other;
cudaStream_t mixed_stream;

static void launches(void) {
    const void *stub = kernels_stub(KERNEL_MATMUL);
    CUfunction function = kernels_function(KERNEL_MATMUL);
    cudaLaunchConfig_t runtime_config = {.gridDim = grid, .blockDim = block, .stream = mixed_stream};
    CUlaunchConfig config = {7, 5, 3, 32, 4, 2, 0, mixed_stream, NULL, 0};
    kernels_first_use(VIA_RUNTIME, KERNEL_MATMUL);
    RUN(cuLaunchKernel, cudaLaunchKernel, 0, mixed_stream, 0, stub, grid, block, NULL, 0, mixed_stream);
    RUN(cuLaunchKernel, cudaLaunchKernel, 0, NULL, 0, stub, grid, block, NULL, 0, NULL);
    RUN(cuLaunchKernel_ptsz, cudaLaunchKernel_ptsz, 0, NULL, 0, stub, grid, block, NULL, 0, NULL);
    RUN(cuLaunchKernelEx, cudaLaunchKernelExC, 0, mixed_stream, 0, &runtime_config, stub, NULL);
    SAME(cuLaunchKernel, 0, mixed_stream, function, function, 7, 5, 3, 32, 4, 2, 0, mixed_stream, NULL, NULL);
    SAME(cuLaunchKernel_ptsz, 0, NULL, function, function, 7, 5, 3, 32, 4, 2, 0, NULL, NULL, NULL);
    SAME(cuLaunchCooperativeKernel, 0, mixed_stream, function, function, 7, 5, 3, 32, 4, 2, 0, mixed_stream,
         NULL);
    SAME(cuLaunchKernelEx, 0, mixed_stream, function, &config, function, NULL, NULL);
    SAME(cuLaunchKernelEx_ptsz, 0, mixed_stream, function, &config, function, NULL, NULL);
}

static void synchronisation(void) {
    SAME(cudaStreamSynchronize, 0, mixed_stream, 0, mixed_stream);
    SAME(cudaStreamSynchronize, 0, NULL, 0, NULL);
    SAME(cudaStreamSynchronize_ptsz, 0, NULL, 0, NULL);
    SAME(cudaStreamQuery, 0, mixed_stream, 0, mixed_stream);
    SAME(cudaDeviceSynchronize, 0, NULL, 0);
    SAME(cuStreamSynchronize, 0, mixed_stream, 0, mixed_stream);
    SAME(cuStreamSynchronize_ptsz, 0, NULL, 0, NULL);
    SAME(cuStreamQuery, 0, mixed_stream, 0, mixed_stream);
    SAME(cuStreamQuery_ptsz, 0, NULL, 0, NULL);
    SAME(cuCtxSynchronize, 0, NULL, 0);
    SAME(cuCtxSynchronize_v2, 0, NULL, 0, NULL);
}

static void events(void) {
    cudaEvent_t start, end;
    float milliseconds;
    SAME(cudaEventCreate, 0, NULL, start, &start);
    SAME(cudaEventCreateWithFlags, 0, NULL, end, &end, CU_EVENT_BLOCKING_SYNC);
    SAME(cudaEventRecord, 0, mixed_stream, start, start, mixed_stream);
    SAME(cudaEventRecord, 0, mixed_stream, end, end, mixed_stream);
    SAME(cudaEventSynchronize, 0, NULL, end, end);
    SAME(cudaEventQuery, 0, NULL, end, end);
    SAME(cudaEventElapsedTime, 0, NULL, start, &milliseconds, start, end);
    SAME(cudaStreamWaitEvent, 0, mixed_stream, end, mixed_stream, end, 0);
    SAME(cudaEventRecord_ptsz, 0, NULL, end, end, NULL);
    SAME(cudaEventDestroy, 0, NULL, start, start);
    SAME(cudaEventDestroy, 0, NULL, end, end);
    SAME(cuEventCreate, 0, NULL, start, &start, 0);
    SAME(cuEventRecord, 0, mixed_stream, start, start, mixed_stream);
    SAME(cuStreamWaitEvent, 0, NULL, start, NULL, start, 0);
    SAME(cuEventSynchronize, 0, NULL, start, start);
    SAME(cuEventQuery, 0, NULL, start, start);
    SAME(cuEventRecord_ptsz, 0, NULL, start, start, NULL);
    SAME(cuEventDestroy_v2, 0, NULL, start, start);
}

static void failing_calls(void) {
    void *pointer = NULL;
    CUdeviceptr address = 0;
    SAME(cudaMalloc, 1ull << 50, NULL, pointer, &pointer, 1ull << 50);
    SAME(cuMemAlloc_v2, 1ull << 51, NULL, address, &address, 1ull << 51);
    SAME(cudaFree, 0, NULL, 0x7f7f7f7f7000, (void *)0x7f7f7f7f7000);
    SAME(cuMemFree_v2, 0, NULL, 0x7f7f7f7f8000, 0x7f7f7f7f8000);
    SAME(cudaMemcpy, 0x4001, NULL, 0, NULL, mixed_host, 0x4001, cudaMemcpyHostToDevice);
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
    SAME(cudaSetDevice, 0, NULL, 0, 0);
    SAME(cudaStreamCreate, 0, NULL, mixed_stream, &mixed_stream);
    SAME(cudaMalloc, HOST_BYTES, NULL, mixed_device, &mixed_device, HOST_BYTES);
    SAME(cudaMalloc, HOST_BYTES, NULL, mixed_other, &mixed_other, HOST_BYTES);
    mixed_memory();
    mixed_copies();
    launches();
    synchronisation();
    events();
    mixed_graphs();
    mixed_modules();
    failing_calls();
    SAME(cudaFree, 0, NULL, mixed_other, mixed_other);
    SAME(cudaFree, 0, NULL, mixed_device, mixed_device);
    SAME(cudaStreamDestroy, 0, NULL, mixed_stream, mixed_stream);
    truth_print("mixed");
    return 0;
}
