// Memory in the order of a stream, and the pools that it comes from. All pools share the memory of the
// device.
#include <stdlib.h>

#include "../engine/pool.h"
#include "handle.h"

struct CUmemPoolHandle_st {
    int unused;
};

static struct CUmemPoolHandle_st default_pool;

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

CUresult cuDeviceGetDefaultMemPool(CUmemoryPool *pool, CUdevice device) {
    int count;
    cuDeviceGetCount(&count);
    if (!pool || device < 0 || device >= count)
        return CUDA_ERROR_INVALID_VALUE;
    *pool = &default_pool;
    return CUDA_SUCCESS;
}

CUresult cuMemPoolCreate(CUmemoryPool *pool, const void *properties) {
    if (!pool || !properties)
        return CUDA_ERROR_INVALID_VALUE;
    *pool = malloc(sizeof **pool);
    return *pool ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuMemPoolDestroy(CUmemoryPool pool) {
    if (!pool || pool == &default_pool)
        return CUDA_ERROR_INVALID_VALUE;
    free(pool);
    return CUDA_SUCCESS;
}

CUresult cuMemAllocFromPoolAsync(CUdeviceptr *pointer, size_t bytes, CUmemoryPool pool, CUstream stream) {
    return pool ? alloc_async(pointer, bytes, stream_of_handle(stream, false)) : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemAllocFromPoolAsync_ptsz(CUdeviceptr *pointer, size_t bytes, CUmemoryPool pool,
                                      CUstream stream) {
    return pool ? alloc_async(pointer, bytes, stream_of_handle(stream, true)) : CUDA_ERROR_INVALID_VALUE;
}
