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
    SAME(cudaMallocAsync_ptsz, 0x10300, NULL, pointer, &pointer, 0x10300, NULL);
    SAME(cudaFreeAsync_ptsz, 0, NULL, pointer, pointer, NULL);
    SAME(cudaMallocManaged, 0x10400, NULL, pointer, &pointer, 0x10400, 1);
    SAME(cudaFree, 0, NULL, pointer, pointer);
    SAME(cudaMallocPitch, 500 * 20, NULL, pointer, &pointer, &pitch, 500, 20);
    SAME(cudaFree, 0, NULL, pointer, pointer);
    SAME(cudaMallocHost, 0x10500, NULL, pointer, &pointer, 0x10500);
    SAME(cudaFreeHost, 0, NULL, pointer, pointer);
    SAME(cudaHostAlloc, 0x10600, NULL, pointer, &pointer, 0x10600, 0);
    SAME(cudaFreeHost, 0, NULL, pointer, pointer);
    SAME(cudaFree, 0, NULL, NULL, NULL);
    cudaMemPool_t pool;
    SAME(cudaMemPoolCreate, 0, NULL, pool, &pool, &properties);
    SAME(cudaMallocFromPoolAsync, 0x10700, mixed_stream, pointer, &pointer, 0x10700, pool, mixed_stream);
    SAME(cudaFreeAsync, 0, mixed_stream, pointer, pointer, mixed_stream);
    SAME(cudaMallocFromPoolAsync_ptsz, 0x10800, NULL, pointer, &pointer, 0x10800, pool, NULL);
    SAME(cudaFreeAsync_ptsz, 0, NULL, pointer, pointer, NULL);
    SAME(cudaMemPoolDestroy, 0, NULL, pool, pool);
    cudaPitchedPtr pitched;
    SAME(cudaMalloc3D, 300 * 20 * 3, NULL, pitched.ptr, &pitched, (cudaExtent){300, 20, 3});
    SAME(cudaFree, 0, NULL, pitched.ptr, pitched.ptr);
    cudaArray_t array;
    const cudaChannelFormatDesc floats = {.x = 32, .f = cudaChannelFormatKindFloat};
    SAME(cudaMallocArray, 64 * 25 * 4, NULL, array, &array, &floats, 64, 25, 0);
    SAME(cudaFreeArray, 0, NULL, array, array);
    SAME(cudaHostRegister, 0x10900, NULL, mixed_host, mixed_host, 0x10900, 0);
    SAME(cudaHostUnregister, 0, NULL, mixed_host, mixed_host);
}

static void driver_memory(void) {
    CUdeviceptr pointer = 0;
    CUmemGenericAllocationHandle handle = 0, retained = 0;
    void *pinned = NULL;
    size_t pitch;
    SAME(cuMemAlloc_v2, 0x20100, NULL, pointer, &pointer, 0x20100);
    SAME(cuMemFree_v2, 0, NULL, pointer, pointer);
    SAME(cuMemAllocAsync, 0x20200, mixed_stream, pointer, &pointer, 0x20200, mixed_stream);
    SAME(cuMemFreeAsync, 0, mixed_stream, pointer, pointer, mixed_stream);
    SAME(cuMemAllocAsync_ptsz, 0x20300, NULL, pointer, &pointer, 0x20300, NULL);
    SAME(cuMemFreeAsync_ptsz, 0, NULL, pointer, pointer, NULL);
    SAME(cuMemAllocManaged, 0x20400, NULL, pointer, &pointer, 0x20400, 1);
    SAME(cuMemFree_v2, 0, NULL, pointer, pointer);
    SAME(cuMemAllocPitch_v2, 700 * 30, NULL, pointer, &pointer, &pitch, 700, 30, 4);
    SAME(cuMemFree_v2, 0, NULL, pointer, pointer);
    SAME(cuMemAllocHost_v2, 0x20500, NULL, pinned, &pinned, 0x20500);
    SAME(cuMemFreeHost, 0, NULL, pinned, pinned);
    SAME(cuMemHostAlloc, 0x20600, NULL, pinned, &pinned, 0x20600, 0);
    SAME(cuMemFreeHost, 0, NULL, pinned, pinned);
    SAME(cuMemAddressReserve, 0x200000, NULL, pointer, &pointer, 0x200000, 0, 0, 0);
    SAME(cuMemCreate, 0x200000, NULL, handle, &handle, 0x200000, NULL, 0);
    SAME(cuMemMap, 0x200000, NULL, pointer, pointer, 0x200000, 0, handle, 0);
    SAME(cuMemSetAccess, 0x200000, NULL, pointer, pointer, 0x200000, NULL, 0);
    SAME(cuMemRetainAllocationHandle, 0, NULL, retained, &retained, (void *)pointer);
    SAME(cuMemRelease, 0, NULL, retained, retained);
    SAME(cuMemUnmap, 0x200000, NULL, pointer, pointer, 0x200000);
    SAME(cuMemRelease, 0, NULL, handle, handle);
    SAME(cuMemAddressFree, 0x200000, NULL, pointer, pointer, 0x200000);
    CUmemoryPool pool;
    SAME(cuMemPoolCreate, 0, NULL, pool, &pool, &properties);
    SAME(cuMemAllocFromPoolAsync, 0x20700, mixed_stream, pointer, &pointer, 0x20700, pool, mixed_stream);
    SAME(cuMemFreeAsync, 0, mixed_stream, pointer, pointer, mixed_stream);
    SAME(cuMemAllocFromPoolAsync_ptsz, 0x20800, NULL, pointer, &pointer, 0x20800, pool, NULL);
    SAME(cuMemFreeAsync_ptsz, 0, NULL, pointer, pointer, NULL);
    SAME(cuMemPoolDestroy, 0, NULL, pool, pool);
    CUarray array;
    const CUDA_ARRAY3D_DESCRIPTOR shape = {
        .Width = 32, .Height = 15, .Format = CU_AD_FORMAT_HALF, .NumChannels = 2};
    SAME(cuArray3DCreate_v2, 32 * 15 * 4, NULL, array, &array, &shape);
    SAME(cuArrayDestroy, 0, NULL, array, array);
    SAME(cuMemHostRegister_v2, 0x20900, NULL, mixed_host, mixed_host, 0x20900, 0);
    SAME(cuMemHostUnregister, 0, NULL, mixed_host, mixed_host);
}

void mixed_memory(void) {
    runtime_memory();
    driver_memory();
}
