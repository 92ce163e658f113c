// Memory of the stand-in runtime.
#include "state.h"

cudaError_t cudaMalloc(void **pointer, size_t bytes) {
    return RUNTIME_CALL(cuMemAlloc_v2((CUdeviceptr *)pointer, bytes));
}

cudaError_t cudaFree(void *pointer) {
    return RUNTIME_CALL(cuMemFree_v2((CUdeviceptr)pointer));
}

cudaError_t cudaMallocAsync(void **pointer, size_t bytes, cudaStream_t stream) {
    return RUNTIME_CALL(cuMemAllocAsync((CUdeviceptr *)pointer, bytes, stream));
}

cudaError_t cudaMallocAsync_ptsz(void **pointer, size_t bytes, cudaStream_t stream) {
    return RUNTIME_CALL(cuMemAllocAsync_ptsz((CUdeviceptr *)pointer, bytes, stream));
}

cudaError_t cudaFreeAsync(void *pointer, cudaStream_t stream) {
    return RUNTIME_CALL(cuMemFreeAsync((CUdeviceptr)pointer, stream));
}

cudaError_t cudaFreeAsync_ptsz(void *pointer, cudaStream_t stream) {
    return RUNTIME_CALL(cuMemFreeAsync_ptsz((CUdeviceptr)pointer, stream));
}

cudaError_t cudaMallocFromPoolAsync(void **pointer, size_t bytes, cudaMemPool_t pool, cudaStream_t stream) {
    return RUNTIME_CALL(cuMemAllocFromPoolAsync((CUdeviceptr *)pointer, bytes, pool, stream));
}

cudaError_t cudaMallocFromPoolAsync_ptsz(void **pointer, size_t bytes, cudaMemPool_t pool,
                                         cudaStream_t stream) {
    return RUNTIME_CALL(cuMemAllocFromPoolAsync_ptsz((CUdeviceptr *)pointer, bytes, pool, stream));
}

cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t *pool, int device) {
    return RUNTIME_CALL(cuDeviceGetDefaultMemPool(pool, device));
}

cudaError_t cudaMemPoolCreate(cudaMemPool_t *pool, const void *properties) {
    return RUNTIME_CALL(cuMemPoolCreate(pool, properties));
}

cudaError_t cudaMemPoolDestroy(cudaMemPool_t pool) {
    return RUNTIME_CALL(cuMemPoolDestroy(pool));
}

cudaError_t cudaMallocManaged(void **pointer, size_t bytes, unsigned flags) {
    return RUNTIME_CALL(cuMemAllocManaged((CUdeviceptr *)pointer, bytes, flags));
}

cudaError_t cudaMallocPitch(void **pointer, size_t *pitch, size_t width, size_t height) {
    return RUNTIME_CALL(cuMemAllocPitch_v2((CUdeviceptr *)pointer, pitch, width, height, 4));
}

cudaError_t cudaMalloc3D(cudaPitchedPtr *pointer, cudaExtent extent) {
    if (!pointer)
        return runtime_leave(CUDA_ERROR_INVALID_VALUE);
    *pointer = (cudaPitchedPtr){.xsize = extent.width, .ysize = extent.height};
    return RUNTIME_CALL(cuMemAllocPitch_v2((CUdeviceptr *)&pointer->ptr, &pointer->pitch, extent.width,
                                           extent.height * extent.depth, 4));
}

// The driver's format of a channel: its kind and its bits.
static unsigned format_of(const cudaChannelFormatDesc *channels) {
    static const unsigned formats[][3] = {
        [cudaChannelFormatKindSigned] = {CU_AD_FORMAT_SIGNED_INT8, CU_AD_FORMAT_SIGNED_INT16,
                                         CU_AD_FORMAT_SIGNED_INT32},
        [cudaChannelFormatKindUnsigned] = {CU_AD_FORMAT_UNSIGNED_INT8, CU_AD_FORMAT_UNSIGNED_INT16,
                                           CU_AD_FORMAT_UNSIGNED_INT32},
        [cudaChannelFormatKindFloat] = {CU_AD_FORMAT_HALF, CU_AD_FORMAT_HALF, CU_AD_FORMAT_FLOAT},
    };
    return formats[channels->f][channels->x / 16 > 2 ? 2 : channels->x / 16];
}

cudaError_t cudaMallocArray(cudaArray_t *array, const cudaChannelFormatDesc *channels, size_t width,
                            size_t height, unsigned flags) {
    if (!channels || channels->f < cudaChannelFormatKindSigned || channels->f > cudaChannelFormatKindFloat)
        return runtime_leave(CUDA_ERROR_INVALID_VALUE);
    CUDA_ARRAY3D_DESCRIPTOR shape = {
        .Width = width,
        .Height = height,
        .Format = format_of(channels),
        .NumChannels =
            (unsigned)((channels->x > 0) + (channels->y > 0) + (channels->z > 0) + (channels->w > 0)),
        .Flags = flags,
    };
    return RUNTIME_CALL(cuArray3DCreate_v2(array, &shape));
}

cudaError_t cudaFreeArray(cudaArray_t array) {
    return RUNTIME_CALL(array ? cuArrayDestroy(array) : CUDA_SUCCESS);
}

cudaError_t cudaMallocHost(void **pointer, size_t bytes) {
    return RUNTIME_CALL(cuMemAllocHost_v2(pointer, bytes));
}

cudaError_t cudaHostAlloc(void **pointer, size_t bytes, unsigned flags) {
    return RUNTIME_CALL(cuMemHostAlloc(pointer, bytes, flags));
}

cudaError_t cudaFreeHost(void *pointer) {
    return RUNTIME_CALL(pointer ? cuMemFreeHost(pointer) : CUDA_SUCCESS);
}

cudaError_t cudaHostRegister(void *pointer, size_t bytes, unsigned flags) {
    return RUNTIME_CALL(cuMemHostRegister_v2(pointer, bytes, flags));
}

cudaError_t cudaHostUnregister(void *pointer) {
    return RUNTIME_CALL(cuMemHostUnregister(pointer));
}

cudaError_t cudaMemGetInfo(size_t *free, size_t *total) {
    return RUNTIME_CALL(cuMemGetInfo_v2(free, total));
}
