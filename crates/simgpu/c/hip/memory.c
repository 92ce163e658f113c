// Device and host memory of the stand-in HIP.
#include "../engine/pool.h"
#include "../engine/stream.h"
#include "../engine/virtual.h"
#include "hip.h"

hipError_t hipMalloc(void **pointer, size_t bytes) {
    return pool_alloc(bytes, (uint64_t *)pointer);
}

hipError_t hipFree(void *pointer) {
    // Freeing waits for the queued work of the whole device, as the real one does.
    streams_wait_all();
    return pointer ? pool_free((uint64_t)pointer) : hipSuccess;
}

hipError_t hipExtMallocWithFlags(void **pointer, size_t bytes, unsigned flags) {
    (void)flags;
    return pool_alloc(bytes, (uint64_t *)pointer);
}

hipError_t hipMallocAsync(void **pointer, size_t bytes, hipStream_t stream) {
    return stream_of(stream, false) ? pool_alloc(bytes, (uint64_t *)pointer) : hipErrorInvalidHandle;
}

hipError_t hipFreeAsync(void *pointer, hipStream_t stream) {
    return stream_of(stream, false) ? pool_free((uint64_t)pointer) : hipErrorInvalidHandle;
}

hipError_t hipDeviceGetDefaultMemPool(hipMemPool_t *pool, int device) {
    static char default_pool;
    if (!pool || device < 0)
        return hipErrorInvalidValue;
    *pool = (hipMemPool_t)&default_pool;
    return hipSuccess;
}

hipError_t hipMallocFromPoolAsync(void **pointer, size_t bytes, hipMemPool_t pool, hipStream_t stream) {
    if (!pool)
        return hipErrorInvalidValue;
    return stream_of(stream, false) ? pool_alloc(bytes, (uint64_t *)pointer) : hipErrorInvalidHandle;
}

hipError_t hipMallocManaged(void **pointer, size_t bytes, unsigned flags) {
    (void)flags;
    return pool_alloc_managed(bytes, (uint64_t *)pointer);
}

hipError_t hipMallocPitch(void **pointer, size_t *pitch, size_t width, size_t height) {
    if (!pitch)
        return hipErrorInvalidValue;
    *pitch = (width + 127) / 128 * 128;
    return pool_alloc(*pitch * height, (uint64_t *)pointer);
}

hipError_t hipHostMalloc(void **pointer, size_t bytes, unsigned flags) {
    (void)flags;
    return pool_alloc_host(bytes, pointer);
}

hipError_t hipHostAlloc(void **pointer, size_t bytes, unsigned flags) {
    (void)flags;
    return pool_alloc_host(bytes, pointer);
}

hipError_t hipMallocHost(void **pointer, size_t bytes) {
    return pool_alloc_host(bytes, pointer);
}

hipError_t hipHostFree(void *pointer) {
    return pointer ? pool_free_host(pointer) : hipSuccess;
}

hipError_t hipFreeHost(void *pointer) {
    return pointer ? pool_free_host(pointer) : hipSuccess;
}

hipError_t hipHostRegister(void *pointer, size_t bytes, unsigned flags) {
    (void)flags;
    return pool_register(pointer, bytes);
}

hipError_t hipHostUnregister(void *pointer) {
    return pool_unregister(pointer);
}

hipError_t hipMemGetInfo(size_t *free, size_t *total) {
    uint64_t free_bytes, total_bytes;
    pool_usage(&free_bytes, &total_bytes);
    *free = free_bytes;
    *total = total_bytes;
    return hipSuccess;
}

hipError_t hipMemAddressReserve(void **pointer, size_t bytes, size_t alignment, void *hint, uint64_t flags) {
    (void)alignment, (void)hint, (void)flags;
    return virtual_reserve(bytes, (uint64_t *)pointer);
}

hipError_t hipMemAddressFree(void *pointer, size_t bytes) {
    (void)bytes;
    return virtual_unreserve((uint64_t)pointer);
}

hipError_t hipMemCreate(hipMemGenericAllocationHandle_t *handle, size_t bytes, const void *properties,
                        uint64_t flags) {
    (void)properties, (void)flags;
    return virtual_create(bytes, (uint64_t *)handle);
}

hipError_t hipMemMap(void *pointer, size_t bytes, size_t offset, hipMemGenericAllocationHandle_t handle,
                     uint64_t flags) {
    (void)offset, (void)flags;
    return virtual_map((uint64_t)pointer, bytes, (uint64_t)handle);
}

hipError_t hipMemSetAccess(void *pointer, size_t bytes, const void *access, size_t count) {
    (void)pointer, (void)bytes, (void)access, (void)count;
    return hipSuccess;
}

hipError_t hipMemUnmap(void *pointer, size_t bytes) {
    (void)bytes;
    return virtual_unmap((uint64_t)pointer);
}

hipError_t hipMemRelease(hipMemGenericAllocationHandle_t handle) {
    return virtual_release((uint64_t)handle);
}

hipError_t hipMemRetainAllocationHandle(hipMemGenericAllocationHandle_t *handle, void *address) {
    return virtual_retain((uint64_t)address, (uint64_t *)handle);
}
