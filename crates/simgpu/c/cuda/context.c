// Devices, contexts and errors of the stand-in driver.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "../engine/control.h"
#include "../engine/fault.h"
#include "handle.h"

#define DRIVER_VERSION 13000
#define MAX_DEVICES 16

struct CUctx_st {
    CUdevice device;
};

static struct CUctx_st contexts[MAX_DEVICES];
static __thread CUcontext current;

static int device_count(void) {
    uint64_t devices = CONTROL(devices);
    return devices < MAX_DEVICES ? (int)devices : MAX_DEVICES;
}

CUresult cuInit(unsigned flags) {
    control_init();
    return flags ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUresult cuDriverGetVersion(int *version) {
    *version = DRIVER_VERSION;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGet(CUdevice *device, int ordinal) {
    if (ordinal < 0 || ordinal >= device_count())
        return CUDA_ERROR_INVALID_DEVICE;
    *device = ordinal;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetCount(int *count) {
    *count = device_count();
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetName(char *name, int length, CUdevice device) {
    if (device < 0 || device >= device_count() || length <= 0)
        return CUDA_ERROR_INVALID_DEVICE;
    snprintf(name, (size_t)length, "Simulated GPU %d", device);
    return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device) {
    if (device < 0 || device >= device_count())
        return CUDA_ERROR_INVALID_DEVICE;
    contexts[device].device = device;
    *context = &contexts[device];
    return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device) {
    return device < 0 || device >= device_count() ? CUDA_ERROR_INVALID_DEVICE : CUDA_SUCCESS;
}

CUresult cuCtxSetCurrent(CUcontext context) {
    current = context;
    return CUDA_SUCCESS;
}

CUresult cuCtxGetCurrent(CUcontext *context) {
    *context = current;
    return CUDA_SUCCESS;
}

CUresult cuCtxGetDevice(CUdevice *device) {
    *device = current ? current->device : 0;
    return current ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

CUresult cuCtxSynchronize(void) {
    fault_sync();
    streams_wait_all();
    return CUDA_SUCCESS;
}

CUresult cuCtxSynchronize_v2(CUcontext context) {
    if (context && (context < contexts || context >= contexts + MAX_DEVICES))
        return CUDA_ERROR_INVALID_CONTEXT;
    fault_sync();
    streams_wait_all();
    return CUDA_SUCCESS;
}

static const struct {
    CUresult error;
    const char *name, *text;
} errors[] = {
    {CUDA_SUCCESS, "CUDA_SUCCESS", "no error"},
    {CUDA_ERROR_INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {CUDA_ERROR_OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {CUDA_ERROR_NOT_INITIALIZED, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    {CUDA_ERROR_INVALID_DEVICE, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {CUDA_ERROR_INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {CUDA_ERROR_INVALID_HANDLE, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    {CUDA_ERROR_ILLEGAL_STATE, "CUDA_ERROR_ILLEGAL_STATE",
     "the operation cannot be performed in the present state"},
    {CUDA_ERROR_NOT_FOUND, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    {CUDA_ERROR_NOT_READY, "CUDA_ERROR_NOT_READY", "device not ready"},
    {CUDA_ERROR_LAUNCH_FAILED, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
    {CUDA_ERROR_NOT_SUPPORTED, "CUDA_ERROR_NOT_SUPPORTED", "operation not supported"},
    {CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED",
     "operation not permitted when stream is capturing"},
    {CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED",
     "operation failed due to a previous error during capture"},
    {CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE, "CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE",
     "the graph update was not performed because it included changes which violated constraints"},
};

static int find_error(CUresult error) {
    for (size_t at = 0; at < sizeof errors / sizeof *errors; at++)
        if (errors[at].error == error)
            return (int)at;
    return -1;
}

CUresult cuGetErrorName(CUresult error, const char **name) {
    int at = find_error(error);
    *name = at < 0 ? NULL : errors[at].name;
    return at < 0 ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUresult cuGetErrorString(CUresult error, const char **text) {
    int at = find_error(error);
    *text = at < 0 ? NULL : errors[at].text;
    return at < 0 ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

static void *own_symbol(const char *symbol, const char *suffix) {
    static void *own;
    if (!own) {
        // Not RTLD_DEFAULT: the library may have been loaded with RTLD_LOCAL.
        Dl_info info;
        if (!dladdr((void *)cuInit, &info))
            return NULL;
        own = dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
        if (!own)
            return NULL;
    }
    char name[128];
    snprintf(name, sizeof name, "%s%s", symbol, suffix);
    return dlsym(own, name);
}

CUresult cuGetProcAddress_v2(const char *symbol, void **function, int version, uint64_t flags, int *status) {
    static const char *const per_thread[] = {"_v2_ptsz", "_v2_ptds", "_ptsz", "_ptds"};
    static const char *const common[] = {"_v2", ""};
    enum { PER_THREAD_DEFAULT_STREAM = 2 };
    // cuCtxSynchronize_v2 takes an argument and came with CUDA 13: an older caller wants the first version.
    bool only_first = strcmp(symbol, "cuCtxSynchronize") == 0 && version < 13000;
    *function = NULL;
    for (int at = 0; at < 4 && !*function && flags & PER_THREAD_DEFAULT_STREAM; at++)
        *function = own_symbol(symbol, per_thread[at]);
    for (int at = only_first; at < 2 && !*function; at++)
        *function = own_symbol(symbol, common[at]);
    if (status)
        *status = *function ? 0 : 1;
    return *function ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}
