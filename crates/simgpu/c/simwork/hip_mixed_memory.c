// hip-mixed: memory, copies and fills.
#include "hip_mixed.h"

#define TO_DEVICE "host_to_device"
#define TO_HOST "device_to_host"
#define ON_DEVICE "device_to_device"
#define PEER "peer"

#define FILLED 0x5a

static void device_memory(void) {
    void *pointer;
    size_t pitch;
    hipMemPool_t pool;
    SAME(hipDeviceGetDefaultMemPool, 0, NULL, pool, &pool, 0);
    SAME(hipMalloc, 0x50100, NULL, pointer, &pointer, 0x50100);
    SAME(hipFree, 0, NULL, pointer, pointer);
    SAME(hipExtMallocWithFlags, 0x50700, NULL, pointer, &pointer, 0x50700, 1);
    SAME(hipFree, 0, NULL, pointer, pointer);
    SAME(hipMallocAsync, 0x50200, hip_stream, pointer, &pointer, 0x50200, hip_stream);
    SAME(hipFreeAsync, 0, hip_stream, pointer, pointer, hip_stream);
    PAIR(hipMallocFromPoolAsync, 0x50300, hip_side, pointer, pool, &pointer, 0x50300, pool, hip_side);
    SAME(hipFreeAsync, 0, hip_side, pointer, pointer, hip_side);
    SAME(hipMallocManaged, 0x50400, NULL, pointer, &pointer, 0x50400, 1);
    SAME(hipFree, 0, NULL, pointer, pointer);
    // As wide as the device made it.
    SAME(hipMallocPitch, pitch * 21, NULL, pointer, &pointer, &pitch, 500, 21);
    SAME(hipFree, 0, NULL, pointer, pointer);
}

static void host_memory(void) {
    void *pointer;
    SAME(hipHostMalloc, 0x50500, NULL, pointer, &pointer, 0x50500, 0);
    SAME(hipHostFree, 0, NULL, pointer, pointer);
    SAME(hipHostAlloc, 0x50800, NULL, pointer, &pointer, 0x50800, 0);
    SAME(hipFreeHost, 0, NULL, pointer, pointer);
    SAME(hipMallocHost, 0x50900, NULL, pointer, &pointer, 0x50900);
    SAME(hipFreeHost, 0, NULL, pointer, pointer);
    SAME(hipHostRegister, 0x50600, NULL, hip_host, hip_host, 0x50600, 0);
    SAME(hipHostUnregister, 0, NULL, hip_host, hip_host);
}

static void virtual_memory(void) {
    void *pointer;
    hipMemGenericAllocationHandle_t handle, retained;
    SAME(hipMemAddressReserve, 0x600000, NULL, pointer, &pointer, 0x600000, 0, NULL, 0);
    SAME(hipMemCreate, 0x400000, NULL, handle, &handle, 0x400000, NULL, 0);
    PAIR(hipMemMap, 0x200000, NULL, pointer, handle, pointer, 0x200000, 0, handle, 0);
    SAME(hipMemSetAccess, 0x200000, NULL, pointer, pointer, 0x200000, NULL, 0);
    PAIR(hipMemRetainAllocationHandle, 0, NULL, retained, pointer, &retained, pointer);
    SAME(hipMemRelease, 0, NULL, retained, retained);
    SAME(hipMemUnmap, 0x200000, NULL, pointer, pointer, 0x200000);
    SAME(hipMemRelease, 0, NULL, handle, handle);
    SAME(hipMemAddressFree, 0x600000, NULL, pointer, pointer, 0x600000);
}

void hip_memory(void) {
    device_memory();
    host_memory();
    virtual_memory();
}

static void copies(void) {
    void *to = hip_device, *from = hip_other, *host = hip_host;
    COPY(hipMemcpy, 0x5001, NULL, to, host, TO_DEVICE, to, host, 0x5001, hipMemcpyHostToDevice);
    COPY(hipMemcpy, 0x5002, NULL, host, from, TO_HOST, host, from, 0x5002, hipMemcpyDeviceToHost);
    COPY(hipMemcpy, 0x5003, NULL, to, from, ON_DEVICE, to, from, 0x5003, hipMemcpyDeviceToDevice);
    COPY(hipMemcpy, 0x5006, NULL, to, host, "unknown", to, host, 0x5006, hipMemcpyDefault);
    COPY(hipMemcpyAsync, 0x5004, hip_stream, to, host, TO_DEVICE, to, host, 0x5004, hipMemcpyHostToDevice,
         hip_stream);
    COPY(hipMemcpyWithStream, 0x5005, hip_side, host, from, TO_HOST, host, from, 0x5005,
         hipMemcpyDeviceToHost, hip_side);
    COPY(hipMemcpyHtoD, 0x5011, NULL, to, host, TO_DEVICE, to, host, 0x5011);
    COPY(hipMemcpyDtoH, 0x5012, NULL, host, from, TO_HOST, host, from, 0x5012);
    COPY(hipMemcpyDtoD, 0x5013, NULL, to, from, ON_DEVICE, to, from, 0x5013);
    COPY(hipMemcpyHtoDAsync, 0x5014, hip_stream, to, host, TO_DEVICE, to, host, 0x5014, hip_stream);
    COPY(hipMemcpyDtoHAsync, 0x5015, hip_side, host, from, TO_HOST, host, from, 0x5015, hip_side);
    COPY(hipMemcpyDtoDAsync, 0x5016, hip_stream, to, from, ON_DEVICE, to, from, 0x5016, hip_stream);
    COPY(hipMemcpy2D, 100 * 31, NULL, to, host, TO_DEVICE, to, 512, host, 128, 100, 31,
         hipMemcpyHostToDevice);
    COPY(hipMemcpy2DAsync, 100 * 32, hip_side, host, from, TO_HOST, host, 128, from, 512, 100, 32,
         hipMemcpyDeviceToHost, hip_side);
    COPY(hipMemcpyPeer, 0x5021, NULL, to, from, PEER, to, 0, from, 0, 0x5021);
    COPY(hipMemcpyPeerAsync, 0x5022, hip_stream, to, from, PEER, to, 0, from, 0, 0x5022, hip_stream);
}

static void fills(void) {
    void *to = hip_device;
    SAME(hipMemset, 0x5031, NULL, to, to, FILLED, 0x5031);
    SAME(hipMemsetAsync, 0x5032, hip_stream, to, to, FILLED, 0x5032, hip_stream);
    SAME(hipMemsetD8, 0x5034, NULL, to, to, FILLED, 0x5034);
    SAME(hipMemsetD8Async, 0x5033, hip_side, to, to, FILLED, 0x5033, hip_side);
    SAME(hipMemsetD32, 0x505 * 4, NULL, to, to, FILLED, 0x505);
    SAME(hipMemsetD32Async, 0x504 * 4, hip_stream, to, to, FILLED, 0x504, hip_stream);
}

void hip_copies(void) {
    copies();
    fills();
}
