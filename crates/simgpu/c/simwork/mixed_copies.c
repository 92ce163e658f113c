// mixed: copies and fills.
#include "mixed.h"

#define TO_DEVICE "host_to_device"
#define TO_HOST "device_to_host"
#define ON_DEVICE "device_to_device"
#define ON_HOST "host_to_host"
#define PEER "peer"
#define UNKNOWN "unknown"

#define FILLED 0x5a

static void runtime_copies(void) {
    void *device = mixed_device, *other = mixed_other;
    char *host = mixed_host, *elsewhere = mixed_host + HOST_BYTES / 2;
    COPY(cudaMemcpy, 0x1001, NULL, device, host, TO_DEVICE, device, host, 0x1001, cudaMemcpyHostToDevice);
    COPY(cudaMemcpy, 0x1002, NULL, host, device, TO_HOST, host, device, 0x1002, cudaMemcpyDeviceToHost);
    COPY(cudaMemcpy, 0x1003, NULL, device, other, ON_DEVICE, device, other, 0x1003, cudaMemcpyDeviceToDevice);
    // Not even the driver's function that this one calls tells where it goes.
    COPY(cudaMemcpy, 0x1004, NULL, device, host, UNKNOWN, device, host, 0x1004, cudaMemcpyDefault);
    COPY(cudaMemcpy, 0x1006, NULL, elsewhere, host, ON_HOST, elsewhere, host, 0x1006, cudaMemcpyHostToHost);
    COPY(cudaMemcpy_ptds, 0x1005, NULL, device, host, TO_DEVICE, device, host, 0x1005,
         cudaMemcpyHostToDevice);
    COPY(cudaMemcpyAsync, 0x1011, mixed_stream, device, host, TO_DEVICE, device, host, 0x1011,
         cudaMemcpyHostToDevice, mixed_stream);
    COPY(cudaMemcpyAsync, 0x1012, mixed_stream, host, device, TO_HOST, host, device, 0x1012,
         cudaMemcpyDeviceToHost, mixed_stream);
    COPY(cudaMemcpyAsync, 0x1013, mixed_stream, device, other, ON_DEVICE, device, other, 0x1013,
         cudaMemcpyDeviceToDevice, mixed_stream);
    COPY(cudaMemcpyAsync, 0x1014, NULL, device, host, UNKNOWN, device, host, 0x1014, cudaMemcpyDefault, NULL);
    COPY(cudaMemcpyAsync_ptsz, 0x1015, mixed_side, host, device, TO_HOST, host, device, 0x1015,
         cudaMemcpyDeviceToHost, mixed_side);
    COPY(cudaMemcpyAsync_ptsz, 0x1016, NULL, device, host, TO_DEVICE, device, host, 0x1016,
         cudaMemcpyHostToDevice, NULL);
    COPY(cudaMemcpy2D, 100 * 11, NULL, device, host, TO_DEVICE, device, 512, host, 128, 100, 11,
         cudaMemcpyHostToDevice);
    COPY(cudaMemcpy2D_ptds, 100 * 13, NULL, host, device, TO_HOST, host, 128, device, 512, 100, 13,
         cudaMemcpyDeviceToHost);
    COPY(cudaMemcpy2DAsync, 100 * 12, mixed_stream, device, host, TO_DEVICE, device, 512, host, 128, 100, 12,
         cudaMemcpyHostToDevice, mixed_stream);
    COPY(cudaMemcpy2DAsync_ptsz, 100 * 14, mixed_side, device, other, ON_DEVICE, device, 512, other, 1024,
         100, 14, cudaMemcpyDeviceToDevice, mixed_side);
    COPY(cudaMemcpyPeer, 0x1021, NULL, device, other, PEER, device, 0, other, 0, 0x1021);
    COPY(cudaMemcpyPeerAsync, 0x1022, mixed_stream, device, other, PEER, device, 0, other, 0, 0x1022,
         mixed_stream);
}

static void driver_copies(void) {
    CUdeviceptr to = (CUdeviceptr)mixed_device, from = (CUdeviceptr)mixed_other;
    char *host = mixed_host;
    COPY(cuMemcpy, 0x2001, NULL, to, from, UNKNOWN, to, from, 0x2001);
    COPY(cuMemcpy_ptds, 0x2002, NULL, to, from, UNKNOWN, to, from, 0x2002);
    COPY(cuMemcpyAsync, 0x2003, mixed_stream, to, from, UNKNOWN, to, from, 0x2003, mixed_stream);
    COPY(cuMemcpyAsync_ptsz, 0x2004, mixed_side, to, from, UNKNOWN, to, from, 0x2004, mixed_side);
    COPY(cuMemcpyHtoD_v2, 0x2011, NULL, to, host, TO_DEVICE, to, host, 0x2011);
    COPY(cuMemcpyHtoD_v2_ptds, 0x2012, NULL, to, host, TO_DEVICE, to, host, 0x2012);
    COPY(cuMemcpyDtoH_v2, 0x2013, NULL, host, from, TO_HOST, host, from, 0x2013);
    COPY(cuMemcpyDtoH_v2_ptds, 0x2014, NULL, host, from, TO_HOST, host, from, 0x2014);
    COPY(cuMemcpyDtoD_v2, 0x2015, NULL, to, from, ON_DEVICE, to, from, 0x2015);
    COPY(cuMemcpyDtoD_v2_ptds, 0x2016, NULL, to, from, ON_DEVICE, to, from, 0x2016);
    COPY(cuMemcpyHtoDAsync_v2, 0x2021, mixed_stream, to, host, TO_DEVICE, to, host, 0x2021, mixed_stream);
    COPY(cuMemcpyHtoDAsync_v2_ptsz, 0x2022, mixed_side, to, host, TO_DEVICE, to, host, 0x2022, mixed_side);
    COPY(cuMemcpyDtoHAsync_v2, 0x2023, mixed_stream, host, from, TO_HOST, host, from, 0x2023, mixed_stream);
    COPY(cuMemcpyDtoHAsync_v2_ptsz, 0x2024, mixed_side, host, from, TO_HOST, host, from, 0x2024, mixed_side);
    COPY(cuMemcpyDtoDAsync_v2, 0x2025, mixed_stream, to, from, ON_DEVICE, to, from, 0x2025, mixed_stream);
    COPY(cuMemcpyDtoDAsync_v2_ptsz, 0x2026, mixed_side, to, from, ON_DEVICE, to, from, 0x2026, mixed_side);
    CUcontext context;
    cuCtxGetCurrent(&context);
    COPY(cuMemcpyPeer, 0x2031, NULL, to, from, PEER, to, context, from, context, 0x2031);
    COPY(cuMemcpyPeerAsync, 0x2032, mixed_stream, to, from, PEER, to, context, from, context, 0x2032,
         mixed_stream);
}

// They have one handle, where they copy to, and nobody looks into their structs for more.
static void driver_copies_2d(void) {
    CUdeviceptr device = (CUdeviceptr)mixed_device;
    const CUDA_MEMCPY2D to_device = {.srcMemoryType = CU_MEMORYTYPE_HOST,
                                     .srcHost = mixed_host,
                                     .srcPitch = 256,
                                     .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                                     .dstDevice = device,
                                     .dstPitch = 512,
                                     .WidthInBytes = 200,
                                     .Height = 13};
    const CUDA_MEMCPY2D to_host = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                                   .srcDevice = device,
                                   .srcPitch = 512,
                                   .dstMemoryType = CU_MEMORYTYPE_HOST,
                                   .dstHost = mixed_host,
                                   .dstPitch = 256,
                                   .WidthInBytes = 201,
                                   .Height = 17};
    COPY(cuMemcpy2D_v2, 200 * 13, NULL, device, 0, UNKNOWN, &to_device);
    COPY(cuMemcpy2DUnaligned_v2, 201 * 17, NULL, mixed_host, 0, UNKNOWN, &to_host);
    COPY(cuMemcpy2DAsync_v2, 200 * 13, mixed_stream, device, 0, UNKNOWN, &to_device, mixed_stream);
}

static void fills(void) {
    void *device = mixed_device;
    CUdeviceptr to = (CUdeviceptr)device;
    SAME(cudaMemset, 0x1031, NULL, device, device, FILLED, 0x1031);
    SAME(cudaMemset_ptds, 0x1032, NULL, device, device, FILLED, 0x1032);
    SAME(cudaMemsetAsync, 0x1033, mixed_stream, device, device, FILLED, 0x1033, mixed_stream);
    SAME(cudaMemsetAsync_ptsz, 0x1034, mixed_side, device, device, FILLED, 0x1034, mixed_side);
    SAME(cuMemsetD8_v2, 0x2041, NULL, to, to, FILLED, 0x2041);
    SAME(cuMemsetD8Async, 0x2042, mixed_stream, to, to, FILLED, 0x2042, mixed_stream);
    SAME(cuMemsetD8Async_ptsz, 0x2043, mixed_side, to, to, FILLED, 0x2043, mixed_side);
    SAME(cuMemsetD32_v2, 0x300 * 4, NULL, to, to, FILLED, 0x300);
    SAME(cuMemsetD32Async, 0x301 * 4, mixed_stream, to, to, FILLED, 0x301, mixed_stream);
    SAME(cuMemsetD32Async_ptsz, 0x302 * 4, mixed_side, to, to, FILLED, 0x302, mixed_side);
}

void mixed_copies(void) {
    runtime_copies();
    driver_copies();
    driver_copies_2d();
    fills();
}
