// mixed: memory.
#include "mixed.h"

// Of a pool; the stand-in does not look at them, but wants some.
static const char properties[88];

static void runtime_memory(void) {
    void *pointer = NULL;
    size_t pitch;
    SAME(cudaMalloc, 0x10100, NULL, pointer, &pointer, 0x10100);
    SAME(cudaFree, 0, NULL, pointer, pointer);
    SAME(cudaMallocAsync, 0x10200, mixed_stream, pointer, &pointer, 0x10200, mixed_stream);
    SAME(cudaFreeAsync, 0, mixed_stream, pointer, pointer, mixed_stream);
    SAME(cudaMallocAsync_ptsz, 0x10300, mixed_side, pointer, &pointer, 0x10300, mixed_side);
    SAME(cudaFreeAsync_ptsz, 0, mixed_side, pointer, pointer, mixed_side);
    SAME(cudaMallocManaged, 0x10400, NULL, pointer, &pointer, 0x10400, 1);
    SAME(cudaFree, 0, NULL, pointer, pointer);
    // As wide as the device made it.
    SAME(cudaMallocPitch, pitch * 20, NULL, pointer, &pointer, &pitch, 500, 20);
    SAME(cudaFree, 0, NULL, pointer, pointer);
    SAME(cudaMallocHost, 0x10500, NULL, pointer, &pointer, 0x10500);
    SAME(cudaFreeHost, 0, NULL, pointer, pointer);
    SAME(cudaHostAlloc, 0x10600, NULL, pointer, &pointer, 0x10600, 0);
    SAME(cudaFreeHost, 0, NULL, pointer, pointer);
    SAME(cudaFree, 0, NULL, NULL, NULL);
    cudaMemPool_t pool;
    SAME(cudaMemPoolCreate, 0, NULL, pool, &pool, &properties);
    PAIR(cudaMallocFromPoolAsync, 0x10700, mixed_stream, pointer, pool, &pointer, 0x10700, pool,
         mixed_stream);
    SAME(cudaFreeAsync, 0, mixed_stream, pointer, pointer, mixed_stream);
    PAIR(cudaMallocFromPoolAsync_ptsz, 0x10800, mixed_side, pointer, pool, &pointer, 0x10800, pool,
         mixed_side);
    SAME(cudaFreeAsync_ptsz, 0, NULL, pointer, pointer, NULL);
    SAME(cudaMemPoolDestroy, 0, NULL, pool, pool);
    SAME(cudaHostRegister, 0x10900, NULL, mixed_host, mixed_host, 0x10900, 0);
    SAME(cudaHostUnregister, 0, NULL, mixed_host, mixed_host);
    // Tools see what these make of the driver.
    cudaPitchedPtr pitched;
    RUN(cuMemAllocPitch_v2, cudaMalloc3D, pitched.pitch * 20 * 3, NULL, pitched.ptr, &pitched,
        (cudaExtent){300, 20, 3});
    SAME(cudaFree, 0, NULL, pitched.ptr, pitched.ptr);
    cudaArray_t array;
    const cudaChannelFormatDesc floats = {.x = 32, .f = cudaChannelFormatKindFloat};
    RUN(cuArray3DCreate_v2, cudaMallocArray, 64 * 25 * 4, NULL, array, &array, &floats, 64, 25, 0);
    RUN(cuArrayDestroy, cudaFreeArray, 0, NULL, array, array);
}

static void driver_memory(void) {
    CUdeviceptr pointer = 0;
    void *pinned = NULL;
    size_t pitch;
    SAME(cuMemAlloc_v2, 0x20100, NULL, pointer, &pointer, 0x20100);
    SAME(cuMemFree_v2, 0, NULL, pointer, pointer);
    SAME(cuMemAllocAsync, 0x20200, mixed_stream, pointer, &pointer, 0x20200, mixed_stream);
    SAME(cuMemFreeAsync, 0, mixed_stream, pointer, pointer, mixed_stream);
    SAME(cuMemAllocAsync_ptsz, 0x20300, mixed_side, pointer, &pointer, 0x20300, mixed_side);
    SAME(cuMemFreeAsync_ptsz, 0, mixed_side, pointer, pointer, mixed_side);
    SAME(cuMemAllocManaged, 0x20400, NULL, pointer, &pointer, 0x20400, 1);
    SAME(cuMemFree_v2, 0, NULL, pointer, pointer);
    SAME(cuMemAllocPitch_v2, pitch * 30, NULL, pointer, &pointer, &pitch, 700, 30, 4);
    SAME(cuMemFree_v2, 0, NULL, pointer, pointer);
    SAME(cuMemAllocHost_v2, 0x20500, NULL, pinned, &pinned, 0x20500);
    SAME(cuMemFreeHost, 0, NULL, pinned, pinned);
    SAME(cuMemHostAlloc, 0x20600, NULL, pinned, &pinned, 0x20600, 0);
    SAME(cuMemFreeHost, 0, NULL, pinned, pinned);
    CUmemoryPool pool;
    SAME(cuMemPoolCreate, 0, NULL, pool, &pool, &properties);
    PAIR(cuMemAllocFromPoolAsync, 0x20700, mixed_stream, pointer, pool, &pointer, 0x20700, pool,
         mixed_stream);
    SAME(cuMemFreeAsync, 0, mixed_stream, pointer, pointer, mixed_stream);
    PAIR(cuMemAllocFromPoolAsync_ptsz, 0x20800, mixed_side, pointer, pool, &pointer, 0x20800, pool,
         mixed_side);
    SAME(cuMemFreeAsync_ptsz, 0, NULL, pointer, pointer, NULL);
    SAME(cuMemPoolDestroy, 0, NULL, pool, pool);
    SAME(cuMemHostRegister_v2, 0x20900, NULL, mixed_host, mixed_host, 0x20900, 0);
    SAME(cuMemHostUnregister, 0, NULL, mixed_host, mixed_host);
}

static void arrays(void) {
    CUarray array;
    const CUDA_ARRAY_DESCRIPTOR flat = {
        .Width = 48, .Height = 11, .Format = CU_AD_FORMAT_UNSIGNED_INT8, .NumChannels = 4};
    const CUDA_ARRAY3D_DESCRIPTOR shape = {
        .Width = 32, .Height = 15, .Depth = 3, .Format = CU_AD_FORMAT_HALF, .NumChannels = 2};
    SAME(cuArrayCreate_v2, 48 * 11 * 4, NULL, array, &array, &flat);
    SAME(cuArrayDestroy, 0, NULL, array, array);
    SAME(cuArray3DCreate_v2, 32 * 15 * 3 * 4, NULL, array, &array, &shape);
    SAME(cuArrayDestroy, 0, NULL, array, array);
}

static void virtual_memory(void) {
    CUdeviceptr pointer = 0;
    CUmemGenericAllocationHandle handle = 0, retained = 0;
    SAME(cuMemAddressReserve, 0x600000, NULL, pointer, &pointer, 0x600000, 0, 0, 0);
    SAME(cuMemCreate, 0x400000, NULL, handle, &handle, 0x400000, NULL, 0);
    PAIR(cuMemMap, 0x200000, NULL, pointer, handle, pointer, 0x200000, 0, handle, 0);
    SAME(cuMemSetAccess, 0x200000, NULL, pointer, pointer, 0x200000, NULL, 0);
    PAIR(cuMemRetainAllocationHandle, 0, NULL, retained, pointer, &retained, (void *)pointer);
    SAME(cuMemRelease, 0, NULL, retained, retained);
    SAME(cuMemUnmap, 0x200000, NULL, pointer, pointer, 0x200000);
    SAME(cuMemRelease, 0, NULL, handle, handle);
    SAME(cuMemAddressFree, 0x600000, NULL, pointer, pointer, 0x600000);
}

void mixed_memory(void) {
    runtime_memory();
    driver_memory();
    arrays();
    virtual_memory();
}
