// Devices, errors and lazy initialisation of the stand-in runtime.
#include <pthread.h>
#include <stdbool.h>

#include "state.h"

#ifndef RUNTIME_VERSION
#error "RUNTIME_VERSION says which CUDA this runtime pretends to be"
#endif

static pthread_once_t init_once = PTHREAD_ONCE_INIT;
static CUresult init_result;
static __thread int device;
static __thread CUcontext context; // NULL until the thread's first call
static __thread cudaError_t last_error;

static void init_driver(void) {
    init_result = cuInit(0);
}

CUresult runtime_enter(void) {
    if (__builtin_expect(context != NULL, 1))
        return CUDA_SUCCESS;
    pthread_once(&init_once, init_driver);
    if (init_result != CUDA_SUCCESS)
        return init_result;
    CUdevice handle;
    CUresult result = cuDeviceGet(&handle, device);
    if (result == CUDA_SUCCESS)
        result = cuDevicePrimaryCtxRetain(&context, handle);
    if (result == CUDA_SUCCESS)
        result = cuCtxSetCurrent(context);
    return result;
}

CUcontext runtime_context(void) {
    return context;
}

cudaError_t runtime_leave(CUresult result) {
    // "Not ready" is an answer, not an error.
    if (result != CUDA_SUCCESS && result != CUDA_ERROR_NOT_READY)
        last_error = result;
    return result;
}

cudaError_t cudaGetDeviceCount(int *count) {
    return RUNTIME_CALL(cuDeviceGetCount(count));
}

cudaError_t cudaSetDevice(int ordinal) {
    CUdevice handle;
    CUresult result = cuDeviceGet(&handle, ordinal);
    if (result == CUDA_SUCCESS) {
        device = ordinal;
        context = NULL;
        result = runtime_enter();
    }
    return runtime_leave(result);
}

cudaError_t cudaGetDevice(int *ordinal) {
    *ordinal = device;
    return CUDA_SUCCESS;
}

cudaError_t cudaDriverGetVersion(int *version) {
    return runtime_leave(cuDriverGetVersion(version));
}

cudaError_t cudaRuntimeGetVersion(int *version) {
    *version = RUNTIME_VERSION;
    return CUDA_SUCCESS;
}

cudaError_t cudaGetLastError(void) {
    cudaError_t error = last_error;
    last_error = CUDA_SUCCESS;
    return error;
}

cudaError_t cudaPeekAtLastError(void) {
    return last_error;
}

static const struct {
    cudaError_t error;
    const char *name, *text;
} errors[] = {
    {0, "cudaSuccess", "no error"},
    {1, "cudaErrorInvalidValue", "invalid argument"},
    {2, "cudaErrorMemoryAllocation", "out of memory"},
    {3, "cudaErrorInitializationError", "initialization error"},
    {21, "cudaErrorInvalidMemcpyDirection", "invalid copy direction for memcpy"},
    {98, "cudaErrorInvalidDeviceFunction", "invalid device function"},
    {101, "cudaErrorInvalidDevice", "invalid device ordinal"},
    {200, "cudaErrorInvalidKernelImage", "device kernel image is invalid"},
    {201, "cudaErrorDeviceUninitialized", "invalid device context"},
    {301, "cudaErrorFileNotFound", "file not found"},
    {400, "cudaErrorInvalidResourceHandle", "invalid resource handle"},
    {401, "cudaErrorIllegalState", "the operation cannot be performed in the present state"},
    {500, "cudaErrorSymbolNotFound", "named symbol not found"},
    {600, "cudaErrorNotReady", "device not ready"},
    {712, "cudaErrorHostMemoryAlreadyRegistered",
     "part or all of the requested memory range is already mapped"},
    {713, "cudaErrorHostMemoryNotRegistered", "pointer does not correspond to a registered memory region"},
    {719, "cudaErrorLaunchFailure", "unspecified launch failure"},
    {801, "cudaErrorNotSupported", "operation not supported"},
    {900, "cudaErrorStreamCaptureUnsupported", "operation not permitted when stream is capturing"},
    {901, "cudaErrorStreamCaptureInvalidated", "operation failed due to a previous error during capture"},
    {910, "cudaErrorGraphExecUpdateFailure", "the graph update was not performed"},
};

const char *cudaGetErrorString(cudaError_t error) {
    for (size_t at = 0; at < sizeof errors / sizeof *errors; at++)
        if (errors[at].error == error)
            return errors[at].text;
    return "unrecognized error code";
}

const char *cudaGetErrorName(cudaError_t error) {
    for (size_t at = 0; at < sizeof errors / sizeof *errors; at++)
        if (errors[at].error == error)
            return errors[at].name;
    return "cudaErrorUnknown";
}

cudaError_t cudaDeviceSynchronize(void) {
    return RUNTIME_CALL(cuCtxSynchronize_v2(runtime_context()));
}
