// Device and host memory of the stand-in driver.
#include "../engine/pool.h"
#include "../engine/stream.h"
#include "cuda.h"

CUresult cuMemAlloc_v2(CUdeviceptr *pointer, size_t bytes) {
    return pool_alloc(bytes, pointer);
}

CUresult cuMemFree_v2(CUdeviceptr pointer) {
    // Freeing waits for the queued work of the whole device, as the real one does.
    streams_wait_all();
    return pointer ? pool_free(pointer) : CUDA_SUCCESS;
}

CUresult cuMemAllocManaged(CUdeviceptr *pointer, size_t bytes, unsigned flags) {
    (void)flags;
    return pool_alloc_managed(bytes, pointer);
}

CUresult cuMemAllocPitch_v2(CUdeviceptr *pointer, size_t *pitch, size_t width, size_t height,
                            unsigned elementBytes) {
    (void)elementBytes;
    if (!pitch)
        return CUDA_ERROR_INVALID_VALUE;
    *pitch = (width + 511) / 512 * 512;
    return pool_alloc(*pitch * height, pointer);
}

CUresult cuMemAllocHost_v2(void **pointer, size_t bytes) {
    return pool_alloc_host(bytes, pointer);
}

CUresult cuMemHostAlloc(void **pointer, size_t bytes, unsigned flags) {
    (void)flags;
    return pool_alloc_host(bytes, pointer);
}

CUresult cuMemFreeHost(void *pointer) {
    return pool_free_host(pointer);
}

CUresult cuMemHostRegister_v2(void *pointer, size_t bytes, unsigned flags) {
    (void)flags;
    return pool_register(pointer, bytes);
}

CUresult cuMemHostUnregister(void *pointer) {
    return pool_unregister(pointer);
}

CUresult cuMemGetInfo_v2(size_t *free, size_t *total) {
    uint64_t free_bytes, total_bytes;
    pool_usage(&free_bytes, &total_bytes);
    *free = free_bytes;
    *total = total_bytes;
    return CUDA_SUCCESS;
}
