// Launches of the stand-in HIP.
#include "../engine/control.h"
#include "../engine/event.h"
#include "../engine/fault.h"
#include "../engine/work.h"
#include "module.h"

static hipError_t launch_on(struct stream *stream, bool is_function, uint64_t threads) {
    if (CONTROL(null))
        return hipSuccess;
    if (!stream || !is_function)
        return hipErrorInvalidHandle;
    if (!threads)
        return hipErrorInvalidValue;
    int fault = fault_launch();
    if (fault)
        return fault;
    work_submit(stream, (struct work){.kind = WORK_KERNEL});
    return hipSuccess;
}

static hipError_t launch(bool is_function, uint64_t threads, hipStream_t stream) {
    return launch_on(stream_of(stream, false), is_function, threads);
}

static uint64_t threads_of(dim3 grid, dim3 block) {
    return (uint64_t)grid.x * grid.y * grid.z * block.x * block.y * block.z;
}

// Events around a launch, either of which may be missing.
static void record(hipEvent_t event, hipStream_t handle) {
    struct stream *stream = stream_of(handle, false);
    if (event_is_valid((struct event *)event) && stream)
        event_record((struct event *)event, stream);
}

hipError_t hipLaunchKernel(const void *function, dim3 grid, dim3 block, void **args, size_t sharedBytes,
                           hipStream_t stream) {
    (void)args, (void)sharedBytes;
    return launch(function != NULL, threads_of(grid, block), stream);
}

// Stream 0 is the thread's own.
hipError_t hipLaunchKernel_spt(const void *function, dim3 grid, dim3 block, void **args, size_t sharedBytes,
                               hipStream_t stream) {
    (void)args, (void)sharedBytes;
    return launch_on(stream_of(stream, true), function != NULL, threads_of(grid, block));
}

hipError_t hipLaunchCooperativeKernel(const void *function, dim3 grid, dim3 block, void **args,
                                      unsigned sharedBytes, hipStream_t stream) {
    (void)args, (void)sharedBytes;
    return launch(function != NULL, threads_of(grid, block), stream);
}

hipError_t hipExtLaunchKernel(const void *function, dim3 grid, dim3 block, void **args, size_t sharedBytes,
                              hipStream_t stream, hipEvent_t start, hipEvent_t stop, int flags) {
    (void)args, (void)sharedBytes, (void)flags;
    record(start, stream);
    hipError_t result = launch(function != NULL, threads_of(grid, block), stream);
    record(stop, stream);
    return result;
}

hipError_t hipLaunchKernelExC(const hipLaunchConfig_t *config, const void *function, void **args) {
    (void)args;
    if (!config)
        return hipErrorInvalidValue;
    return launch(function != NULL, threads_of(config->gridDim, config->blockDim), config->stream);
}

hipError_t hipModuleLaunchKernel(MODULE_LAUNCH_ARGUMENTS, unsigned sharedBytes, hipStream_t stream,
                                 void **parameters, void **extra) {
    (void)sharedBytes, (void)parameters, (void)extra;
    dim3 grid = {gridX, gridY, gridZ}, block = {blockX, blockY, blockZ};
    return launch(function_is_valid(function), threads_of(grid, block), stream);
}

hipError_t hipModuleLaunchCooperativeKernel(MODULE_LAUNCH_ARGUMENTS, unsigned sharedBytes, hipStream_t stream,
                                            void **parameters) {
    (void)sharedBytes, (void)parameters;
    dim3 grid = {gridX, gridY, gridZ}, block = {blockX, blockY, blockZ};
    return launch(function_is_valid(function), threads_of(grid, block), stream);
}

// Its grid counts threads, not blocks.
static hipError_t launch_threads(MODULE_LAUNCH_ARGUMENTS, hipStream_t stream, hipEvent_t start,
                                 hipEvent_t stop) {
    dim3 grid = {gridX, gridY, gridZ}, block = {blockX, blockY, blockZ};
    record(start, stream);
    hipError_t result = launch(function_is_valid(function), threads_of(grid, block), stream);
    record(stop, stream);
    return result;
}

hipError_t hipExtModuleLaunchKernel(MODULE_LAUNCH_ARGUMENTS, size_t sharedBytes, hipStream_t stream,
                                    void **parameters, void **extra, hipEvent_t start, hipEvent_t stop,
                                    uint32_t flags) {
    (void)sharedBytes, (void)parameters, (void)extra, (void)flags;
    return launch_threads(function, gridX, gridY, gridZ, blockX, blockY, blockZ, stream, start, stop);
}

// Its older name.
hipError_t hipHccModuleLaunchKernel(MODULE_LAUNCH_ARGUMENTS, size_t sharedBytes, hipStream_t stream,
                                    void **parameters, void **extra, hipEvent_t start, hipEvent_t stop) {
    (void)sharedBytes, (void)parameters, (void)extra;
    return launch_threads(function, gridX, gridY, gridZ, blockX, blockY, blockZ, stream, start, stop);
}

hipError_t hipLaunchHostFunc(hipStream_t handle, hipHostFn_t function, void *arg) {
    struct stream *stream = stream_of(handle, false);
    if (!stream)
        return hipErrorInvalidHandle;
    if (!function)
        return hipErrorInvalidValue;
    work_submit(stream, (struct work){.kind = WORK_HOST, .host = function, .arg = arg});
    return hipSuccess;
}
