// Virtual memory management of the stand-in driver.
#include "../engine/virtual.h"

#include "cuda.h"

CUresult cuMemAddressReserve(CUdeviceptr *pointer, size_t bytes, size_t alignment, CUdeviceptr hint,
                             uint64_t flags) {
    (void)alignment, (void)hint, (void)flags;
    return virtual_reserve(bytes, pointer);
}

CUresult cuMemAddressFree(CUdeviceptr pointer, size_t bytes) {
    (void)bytes;
    return virtual_unreserve(pointer);
}

CUresult cuMemCreate(CUmemGenericAllocationHandle *handle, size_t bytes, const void *properties,
                     uint64_t flags) {
    (void)properties, (void)flags;
    return virtual_create(bytes, handle);
}

CUresult cuMemMap(CUdeviceptr pointer, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle,
                  uint64_t flags) {
    (void)offset, (void)flags;
    return virtual_map(pointer, bytes, handle);
}

CUresult cuMemSetAccess(CUdeviceptr pointer, size_t bytes, const void *access, size_t count) {
    (void)pointer, (void)bytes, (void)access, (void)count;
    return CUDA_SUCCESS;
}

CUresult cuMemUnmap(CUdeviceptr pointer, size_t bytes) {
    (void)bytes;
    return virtual_unmap(pointer);
}

CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
    return virtual_release(handle);
}

CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *handle, void *address) {
    return virtual_retain((uint64_t)address, handle);
}
