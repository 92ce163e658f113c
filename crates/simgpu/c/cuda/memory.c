// Device and host memory of the stand-in driver.
#include "../engine/pool.h"
#include "handle.h"

CUresult cuMemAlloc_v2(CUdeviceptr *pointer, size_t bytes) {
    return pool_alloc(bytes, pointer);
}

CUresult cuMemFree_v2(CUdeviceptr pointer) {
    // Freeing waits for the queued work of the whole device, as the real one does.
    streams_wait_all();
    return pointer ? pool_free(pointer) : CUDA_SUCCESS;
}

static CUresult alloc_async(CUdeviceptr *pointer, size_t bytes, struct stream *stream) {
    return stream ? pool_alloc(bytes, pointer) : CUDA_ERROR_INVALID_HANDLE;
}

CUresult cuMemAllocAsync(CUdeviceptr *pointer, size_t bytes, CUstream stream) {
    return alloc_async(pointer, bytes, stream_of_handle(stream, false));
}

CUresult cuMemAllocAsync_ptsz(CUdeviceptr *pointer, size_t bytes, CUstream stream) {
    return alloc_async(pointer, bytes, stream_of_handle(stream, true));
}

static CUresult free_async(CUdeviceptr pointer, struct stream *stream) {
    return stream ? pool_free(pointer) : CUDA_ERROR_INVALID_HANDLE;
}

CUresult cuMemFreeAsync(CUdeviceptr pointer, CUstream stream) {
    return free_async(pointer, stream_of_handle(stream, false));
}

CUresult cuMemFreeAsync_ptsz(CUdeviceptr pointer, CUstream stream) {
    return free_async(pointer, stream_of_handle(stream, true));
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

CUresult cuMemGetInfo_v2(size_t *free, size_t *total) {
    uint64_t free_bytes, total_bytes;
    pool_usage(&free_bytes, &total_bytes);
    *free = free_bytes;
    *total = total_bytes;
    return CUDA_SUCCESS;
}

CUresult cuMemAddressReserve(CUdeviceptr *pointer, size_t bytes, size_t alignment, CUdeviceptr hint,
                             uint64_t flags) {
    (void)alignment, (void)hint, (void)flags;
    return pool_reserve(bytes, pointer);
}

CUresult cuMemAddressFree(CUdeviceptr pointer, size_t bytes) {
    (void)bytes;
    return pool_unreserve(pointer);
}

CUresult cuMemCreate(CUmemGenericAllocationHandle *handle, size_t bytes, const void *properties,
                     uint64_t flags) {
    (void)properties, (void)flags;
    return pool_create(bytes, handle);
}

CUresult cuMemMap(CUdeviceptr pointer, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle,
                  uint64_t flags) {
    (void)offset, (void)flags;
    return pool_map(pointer, bytes, handle);
}

CUresult cuMemSetAccess(CUdeviceptr pointer, size_t bytes, const void *access, size_t count) {
    (void)pointer, (void)bytes, (void)access, (void)count;
    return CUDA_SUCCESS;
}

CUresult cuMemUnmap(CUdeviceptr pointer, size_t bytes) {
    (void)bytes;
    return pool_unmap(pointer);
}

CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
    return pool_release(handle);
}
