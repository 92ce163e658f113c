// mixed: copies and fills.
#include "mixed.h"

static void runtime_copies(void) {
    SAME(cudaMemcpy, 0x1001, NULL, mixed_device, mixed_device, mixed_host, 0x1001, cudaMemcpyHostToDevice);
    SAME(cudaMemcpy, 0x1002, NULL, mixed_host, mixed_host, mixed_device, 0x1002, cudaMemcpyDeviceToHost);
    SAME(cudaMemcpy, 0x1003, NULL, mixed_device, mixed_device, mixed_other, 0x1003, cudaMemcpyDeviceToDevice);
    SAME(cudaMemcpy, 0x1004, NULL, mixed_device, mixed_device, mixed_host, 0x1004, cudaMemcpyDefault);
    SAME(cudaMemcpy_ptds, 0x1005, NULL, mixed_device, mixed_device, mixed_host, 0x1005,
         cudaMemcpyHostToDevice);
    SAME(cudaMemcpyAsync, 0x1011, mixed_stream, mixed_device, mixed_device, mixed_host, 0x1011,
         cudaMemcpyHostToDevice, mixed_stream);
    SAME(cudaMemcpyAsync, 0x1012, mixed_stream, mixed_host, mixed_host, mixed_device, 0x1012,
         cudaMemcpyDeviceToHost, mixed_stream);
    SAME(cudaMemcpyAsync, 0x1013, mixed_stream, mixed_device, mixed_device, mixed_other, 0x1013,
         cudaMemcpyDeviceToDevice, mixed_stream);
    SAME(cudaMemcpyAsync, 0x1014, NULL, mixed_device, mixed_device, mixed_host, 0x1014, cudaMemcpyDefault,
         NULL);
    SAME(cudaMemcpyAsync_ptsz, 0x1015, NULL, mixed_device, mixed_device, mixed_host, 0x1015,
         cudaMemcpyHostToDevice, NULL);
    SAME(cudaMemcpy2D, 100 * 11, NULL, mixed_device, mixed_device, 512, mixed_host, 100, 100, 11,
         cudaMemcpyHostToDevice);
    SAME(cudaMemcpy2DAsync, 100 * 12, mixed_stream, mixed_device, mixed_device, 512, mixed_host, 100, 100, 12,
         cudaMemcpyHostToDevice, mixed_stream);
    SAME(cudaMemcpyPeer, 0x1021, NULL, mixed_device, mixed_device, 0, mixed_other, 0, 0x1021);
    SAME(cudaMemcpyPeerAsync, 0x1022, mixed_stream, mixed_device, mixed_device, 0, mixed_other, 0, 0x1022,
         mixed_stream);
    SAME(cudaMemset, 0x1031, NULL, mixed_device, mixed_device, 0, 0x1031);
    SAME(cudaMemset_ptds, 0x1032, NULL, mixed_device, mixed_device, 0, 0x1032);
    SAME(cudaMemsetAsync, 0x1033, mixed_stream, mixed_device, mixed_device, 0, 0x1033, mixed_stream);
    SAME(cudaMemsetAsync_ptsz, 0x1034, NULL, mixed_device, mixed_device, 0, 0x1034, NULL);
}

static void driver_copies(void) {
    CUdeviceptr to = (CUdeviceptr)mixed_device, from = (CUdeviceptr)mixed_other;
    CUDA_MEMCPY2D shape = {.srcMemoryType = CU_MEMORYTYPE_HOST,
                           .srcHost = mixed_host,
                           .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                           .dstDevice = to,
                           .WidthInBytes = 200,
                           .Height = 13};
    SAME(cuMemcpy, 0x2001, NULL, to, to, from, 0x2001);
    SAME(cuMemcpy_ptds, 0x2002, NULL, to, to, from, 0x2002);
    SAME(cuMemcpyAsync, 0x2003, mixed_stream, to, to, from, 0x2003, mixed_stream);
    SAME(cuMemcpyAsync_ptsz, 0x2004, NULL, to, to, from, 0x2004, NULL);
    SAME(cuMemcpyHtoD_v2, 0x2011, NULL, to, to, mixed_host, 0x2011);
    SAME(cuMemcpyHtoD_v2_ptds, 0x2012, NULL, to, to, mixed_host, 0x2012);
    SAME(cuMemcpyDtoH_v2, 0x2013, NULL, mixed_host, mixed_host, from, 0x2013);
    SAME(cuMemcpyDtoH_v2_ptds, 0x2014, NULL, mixed_host, mixed_host, from, 0x2014);
    SAME(cuMemcpyDtoD_v2, 0x2015, NULL, to, to, from, 0x2015);
    SAME(cuMemcpyDtoD_v2_ptds, 0x2016, NULL, to, to, from, 0x2016);
    SAME(cuMemcpyHtoDAsync_v2, 0x2021, mixed_stream, to, to, mixed_host, 0x2021, mixed_stream);
    SAME(cuMemcpyHtoDAsync_v2_ptsz, 0x2022, mixed_stream, to, to, mixed_host, 0x2022, mixed_stream);
    SAME(cuMemcpyDtoHAsync_v2, 0x2023, mixed_stream, mixed_host, mixed_host, from, 0x2023, mixed_stream);
    SAME(cuMemcpyDtoHAsync_v2_ptsz, 0x2024, mixed_stream, mixed_host, mixed_host, from, 0x2024, mixed_stream);
    SAME(cuMemcpyDtoDAsync_v2, 0x2025, mixed_stream, to, to, from, 0x2025, mixed_stream);
    SAME(cuMemcpyDtoDAsync_v2_ptsz, 0x2026, mixed_stream, to, to, from, 0x2026, mixed_stream);
    SAME(cuMemcpyPeer, 0x2031, NULL, to, to, NULL, from, NULL, 0x2031);
    SAME(cuMemcpyPeerAsync, 0x2032, mixed_stream, to, to, NULL, from, NULL, 0x2032, mixed_stream);
    SAME(cuMemcpy2D_v2, 200 * 13, NULL, to, &shape);
    SAME(cuMemcpy2DAsync_v2, 200 * 13, mixed_stream, to, &shape, mixed_stream);
    SAME(cuMemsetD8_v2, 0x2041, NULL, to, to, 0, 0x2041);
    SAME(cuMemsetD8Async, 0x2042, mixed_stream, to, to, 0, 0x2042, mixed_stream);
    SAME(cuMemsetD32_v2, 0x300 * 4, NULL, to, to, 0, 0x300);
    SAME(cuMemsetD32Async, 0x301 * 4, mixed_stream, to, to, 0, 0x301, mixed_stream);
}

void mixed_copies(void) {
    runtime_copies();
    driver_copies();
}
