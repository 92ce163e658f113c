// Devices and contexts of the stand-in driver.
#include <stdio.h>
#include <stdlib.h>

#include "../engine/control.h"
#include "../engine/fault.h"
#include "handle.h"

#define DRIVER_VERSION 13000
#define MAX_DEVICES 16
#define CONTEXT_MAGIC 0xc0c7e000u

struct CUctx_st {
    uint32_t magic;
    CUdevice device;
};

static struct CUctx_st primary[MAX_DEVICES];
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
    primary[device] = (struct CUctx_st){.magic = CONTEXT_MAGIC, .device = device};
    *context = &primary[device];
    return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device) {
    return device < 0 || device >= device_count() ? CUDA_ERROR_INVALID_DEVICE : CUDA_SUCCESS;
}

static CUresult create(CUcontext *context, CUdevice device) {
    if (!context)
        return CUDA_ERROR_INVALID_VALUE;
    if (device < 0 || device >= device_count())
        return CUDA_ERROR_INVALID_DEVICE;
    *context = malloc(sizeof **context);
    if (!*context)
        return CUDA_ERROR_OUT_OF_MEMORY;
    **context = (struct CUctx_st){.magic = CONTEXT_MAGIC, .device = device};
    current = *context;
    return CUDA_SUCCESS;
}

CUresult cuCtxCreate_v2(CUcontext *context, unsigned flags, CUdevice device) {
    (void)flags;
    return create(context, device);
}

CUresult cuCtxCreate_v3(CUcontext *context, void *affinities, int affinityCount, unsigned flags,
                        CUdevice device) {
    (void)affinities, (void)affinityCount, (void)flags;
    return create(context, device);
}

CUresult cuCtxCreate_v4(CUcontext *context, void *parameters, unsigned flags, CUdevice device) {
    (void)parameters, (void)flags;
    return create(context, device);
}

CUresult cuCtxDestroy_v2(CUcontext context) {
    bool is_primary = context >= primary && context < primary + MAX_DEVICES;
    if (!context || is_primary || context->magic != CONTEXT_MAGIC)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (current == context)
        current = NULL;
    context->magic = 0;
    free(context);
    return CUDA_SUCCESS;
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
    if (context && context->magic != CONTEXT_MAGIC)
        return CUDA_ERROR_INVALID_CONTEXT;
    fault_sync();
    streams_wait_all();
    return CUDA_SUCCESS;
}
