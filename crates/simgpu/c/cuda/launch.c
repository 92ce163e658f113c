// Launches of the stand-in driver.
#include "../engine/control.h"
#include "../engine/fault.h"
#include "../engine/work.h"
#include "handle.h"
#include "module.h"

#define MAX_THREADS_IN_BLOCK 1024

static CUresult launch(CUfunction function, unsigned gridX, unsigned gridY, unsigned gridZ, unsigned blockX,
                       unsigned blockY, unsigned blockZ, CUstream handle, bool per_thread) {
    if (CONTROL(null))
        return CUDA_SUCCESS;
    struct stream *stream = stream_of_handle(handle, per_thread);
    if (!stream || !function_is_valid(function))
        return CUDA_ERROR_INVALID_HANDLE;
    uint64_t threads = (uint64_t)blockX * blockY * blockZ;
    if (!gridX || !gridY || !gridZ || !threads || threads > MAX_THREADS_IN_BLOCK)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult fault = fault_launch();
    if (fault)
        return fault;
    work_submit(stream, (struct work){.kind = WORK_KERNEL});
    return CUDA_SUCCESS;
}

CUresult cuLaunchKernel(LAUNCH_ARGUMENTS, void **extra) {
    (void)sharedBytes, (void)parameters, (void)extra;
    return launch(function, gridX, gridY, gridZ, blockX, blockY, blockZ, stream, false);
}

CUresult cuLaunchKernel_ptsz(LAUNCH_ARGUMENTS, void **extra) {
    (void)sharedBytes, (void)parameters, (void)extra;
    return launch(function, gridX, gridY, gridZ, blockX, blockY, blockZ, stream, true);
}

CUresult cuLaunchCooperativeKernel(LAUNCH_ARGUMENTS) {
    (void)sharedBytes, (void)parameters;
    return launch(function, gridX, gridY, gridZ, blockX, blockY, blockZ, stream, false);
}

CUresult cuLaunchCooperativeKernel_ptsz(LAUNCH_ARGUMENTS) {
    (void)sharedBytes, (void)parameters;
    return launch(function, gridX, gridY, gridZ, blockX, blockY, blockZ, stream, true);
}

static CUresult launch_config(const CUlaunchConfig *config, CUfunction function, bool per_thread) {
    if (!config)
        return CUDA_ERROR_INVALID_VALUE;
    return launch(function, config->gridDimX, config->gridDimY, config->gridDimZ, config->blockDimX,
                  config->blockDimY, config->blockDimZ, config->hStream, per_thread);
}

CUresult cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction function, void **parameters,
                          void **extra) {
    (void)parameters, (void)extra;
    return launch_config(config, function, false);
}

CUresult cuLaunchKernelEx_ptsz(const CUlaunchConfig *config, CUfunction function, void **parameters,
                               void **extra) {
    (void)parameters, (void)extra;
    return launch_config(config, function, true);
}

static CUresult launch_host(struct stream *stream, CUhostFn function, void *arg) {
    if (!stream)
        return CUDA_ERROR_INVALID_HANDLE;
    if (!function)
        return CUDA_ERROR_INVALID_VALUE;
    work_submit(stream, (struct work){.kind = WORK_HOST, .host = function, .arg = arg});
    return CUDA_SUCCESS;
}

CUresult cuLaunchHostFunc(CUstream stream, CUhostFn function, void *arg) {
    return launch_host(stream_of_handle(stream, false), function, arg);
}

CUresult cuLaunchHostFunc_ptsz(CUstream stream, CUhostFn function, void *arg) {
    return launch_host(stream_of_handle(stream, true), function, arg);
}
