// The library itself: initialisation, versions, errors. It runs inside of tools, so it prints nothing and
// starts no thread.
#include <string.h>

#include "../engine/clock.h"
#include "device.h"

#define DRIVER_VERSION "580.65.06"
#define NVML_VERSION "13." DRIVER_VERSION
#define CUDA_VERSION 13000

static _Atomic int users;
static _Atomic uint64_t first_ns;

bool nvml_is_initialized(void) {
    return users > 0;
}

uint64_t nvml_elapsed_ns(void) {
    return now_ns() - first_ns;
}

static nvmlReturn_t init(void) {
    control_quiet = true;
    control_init();
    if (users++ == 0 && !first_ns)
        first_ns = now_ns();
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlInit(void) {
    return init();
}

nvmlReturn_t nvmlInit_v2(void) {
    return init();
}

nvmlReturn_t nvmlInitWithFlags(unsigned flags) {
    (void)flags;
    return init();
}

nvmlReturn_t nvmlShutdown(void) {
    int before = users;
    while (before > 0 && !__atomic_compare_exchange_n((int *)&users, &before, before - 1, false,
                                                      __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {
    }
    return before > 0 ? NVML_SUCCESS : NVML_ERROR_UNINITIALIZED;
}

const char *nvmlErrorString(nvmlReturn_t result) {
    switch (result) {
    case NVML_SUCCESS:
        return "Success";
    case NVML_ERROR_UNINITIALIZED:
        return "Uninitialized";
    case NVML_ERROR_INVALID_ARGUMENT:
        return "Invalid Argument";
    case NVML_ERROR_NOT_SUPPORTED:
        return "Not Supported";
    case NVML_ERROR_NO_PERMISSION:
        return "Insufficient Permissions";
    case NVML_ERROR_NOT_FOUND:
        return "Not Found";
    case NVML_ERROR_INSUFFICIENT_SIZE:
        return "Insufficient Size";
    case NVML_ERROR_TIMEOUT:
        return "Timeout";
    case NVML_ERROR_GPU_IS_LOST:
        return "GPU is lost";
    case NVML_ERROR_MEMORY:
        return "Insufficient Memory";
    case NVML_ERROR_ARGUMENT_VERSION_MISMATCH:
        return "Argument Version Mismatch";
    default:
        return "Unknown Error";
    }
}

// The versions may be asked for before the library is initialised.
static nvmlReturn_t tell_text(char *out, unsigned length, const char *text) {
    if (!out)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (length <= strlen(text))
        return NVML_ERROR_INSUFFICIENT_SIZE;
    strcpy(out, text);
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlSystemGetDriverVersion(char *version, unsigned length) {
    return users ? tell_text(version, length, DRIVER_VERSION) : NVML_ERROR_UNINITIALIZED;
}

nvmlReturn_t nvmlSystemGetNVMLVersion(char *version, unsigned length) {
    return tell_text(version, length, NVML_VERSION);
}

static nvmlReturn_t tell_cuda_version(int *version) {
    if (!version)
        return NVML_ERROR_INVALID_ARGUMENT;
    *version = CUDA_VERSION;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlSystemGetCudaDriverVersion(int *version) {
    return tell_cuda_version(version);
}

nvmlReturn_t nvmlSystemGetCudaDriverVersion_v2(int *version) {
    return tell_cuda_version(version);
}
