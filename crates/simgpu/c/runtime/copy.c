// Copies and fills of the stand-in runtime.
#include "state.h"

cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, cudaMemcpyKind kind) {
    CUdeviceptr device_to = (CUdeviceptr)to, device_from = (CUdeviceptr)from;
    switch (kind) {
    case cudaMemcpyHostToDevice:
        return RUNTIME_CALL(cuMemcpyHtoD_v2(device_to, from, bytes));
    case cudaMemcpyDeviceToHost:
        return RUNTIME_CALL(cuMemcpyDtoH_v2(to, device_from, bytes));
    case cudaMemcpyDeviceToDevice:
        return RUNTIME_CALL(cuMemcpyDtoD_v2(device_to, device_from, bytes));
    case cudaMemcpyHostToHost:
    case cudaMemcpyDefault:
        return RUNTIME_CALL(cuMemcpy(device_to, device_from, bytes));
    }
    return runtime_leave(cudaErrorInvalidMemcpyDirection);
}

cudaError_t cudaMemcpy_ptds(void *to, const void *from, size_t bytes, cudaMemcpyKind kind) {
    CUdeviceptr device_to = (CUdeviceptr)to, device_from = (CUdeviceptr)from;
    switch (kind) {
    case cudaMemcpyHostToDevice:
        return RUNTIME_CALL(cuMemcpyHtoD_v2_ptds(device_to, from, bytes));
    case cudaMemcpyDeviceToHost:
        return RUNTIME_CALL(cuMemcpyDtoH_v2_ptds(to, device_from, bytes));
    case cudaMemcpyDeviceToDevice:
        return RUNTIME_CALL(cuMemcpyDtoD_v2_ptds(device_to, device_from, bytes));
    case cudaMemcpyHostToHost:
    case cudaMemcpyDefault:
        return RUNTIME_CALL(cuMemcpy_ptds(device_to, device_from, bytes));
    }
    return runtime_leave(cudaErrorInvalidMemcpyDirection);
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
    CUdeviceptr device_to = (CUdeviceptr)to, device_from = (CUdeviceptr)from;
    switch (kind) {
    case cudaMemcpyHostToDevice:
        return RUNTIME_CALL(cuMemcpyHtoDAsync_v2(device_to, from, bytes, stream));
    case cudaMemcpyDeviceToHost:
        return RUNTIME_CALL(cuMemcpyDtoHAsync_v2(to, device_from, bytes, stream));
    case cudaMemcpyDeviceToDevice:
        return RUNTIME_CALL(cuMemcpyDtoDAsync_v2(device_to, device_from, bytes, stream));
    case cudaMemcpyHostToHost:
    case cudaMemcpyDefault:
        return RUNTIME_CALL(cuMemcpyAsync(device_to, device_from, bytes, stream));
    }
    return runtime_leave(cudaErrorInvalidMemcpyDirection);
}

cudaError_t cudaMemcpyAsync_ptsz(void *to, const void *from, size_t bytes, cudaMemcpyKind kind,
                                 cudaStream_t stream) {
    CUdeviceptr device_to = (CUdeviceptr)to, device_from = (CUdeviceptr)from;
    switch (kind) {
    case cudaMemcpyHostToDevice:
        return RUNTIME_CALL(cuMemcpyHtoDAsync_v2_ptsz(device_to, from, bytes, stream));
    case cudaMemcpyDeviceToHost:
        return RUNTIME_CALL(cuMemcpyDtoHAsync_v2_ptsz(to, device_from, bytes, stream));
    case cudaMemcpyDeviceToDevice:
        return RUNTIME_CALL(cuMemcpyDtoDAsync_v2_ptsz(device_to, device_from, bytes, stream));
    case cudaMemcpyHostToHost:
    case cudaMemcpyDefault:
        return RUNTIME_CALL(cuMemcpyAsync_ptsz(device_to, device_from, bytes, stream));
    }
    return runtime_leave(cudaErrorInvalidMemcpyDirection);
}

static CUDA_MEMCPY2D shape_2d(void *to, size_t toPitch, const void *from, size_t fromPitch, size_t width,
                              size_t height, cudaMemcpyKind kind) {
    CUDA_MEMCPY2D shape = {
        .srcPitch = fromPitch, .dstPitch = toPitch, .WidthInBytes = width, .Height = height};
    if (kind == cudaMemcpyHostToDevice || kind == cudaMemcpyHostToHost) {
        shape.srcMemoryType = CU_MEMORYTYPE_HOST;
        shape.srcHost = from;
    } else {
        shape.srcMemoryType = CU_MEMORYTYPE_DEVICE;
        shape.srcDevice = (CUdeviceptr)from;
    }
    if (kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyHostToHost) {
        shape.dstMemoryType = CU_MEMORYTYPE_HOST;
        shape.dstHost = to;
    } else {
        shape.dstMemoryType = CU_MEMORYTYPE_DEVICE;
        shape.dstDevice = (CUdeviceptr)to;
    }
    return shape;
}

cudaError_t cudaMemcpy2D(void *to, size_t toPitch, const void *from, size_t fromPitch, size_t width,
                         size_t height, cudaMemcpyKind kind) {
    CUDA_MEMCPY2D shape = shape_2d(to, toPitch, from, fromPitch, width, height, kind);
    return RUNTIME_CALL(cuMemcpy2D_v2(&shape));
}

cudaError_t cudaMemcpy2D_ptds(void *to, size_t toPitch, const void *from, size_t fromPitch, size_t width,
                              size_t height, cudaMemcpyKind kind) {
    CUDA_MEMCPY2D shape = shape_2d(to, toPitch, from, fromPitch, width, height, kind);
    return RUNTIME_CALL(cuMemcpy2D_v2_ptds(&shape));
}

cudaError_t cudaMemcpy2DAsync(void *to, size_t toPitch, const void *from, size_t fromPitch, size_t width,
                              size_t height, cudaMemcpyKind kind, cudaStream_t stream) {
    CUDA_MEMCPY2D shape = shape_2d(to, toPitch, from, fromPitch, width, height, kind);
    return RUNTIME_CALL(cuMemcpy2DAsync_v2(&shape, stream));
}

cudaError_t cudaMemcpy2DAsync_ptsz(void *to, size_t toPitch, const void *from, size_t fromPitch, size_t width,
                                   size_t height, cudaMemcpyKind kind, cudaStream_t stream) {
    CUDA_MEMCPY2D shape = shape_2d(to, toPitch, from, fromPitch, width, height, kind);
    return RUNTIME_CALL(cuMemcpy2DAsync_v2_ptsz(&shape, stream));
}

cudaError_t cudaMemcpyPeer(void *to, int toDevice, const void *from, int fromDevice, size_t bytes) {
    (void)toDevice, (void)fromDevice;
    return RUNTIME_CALL(
        cuMemcpyPeer((CUdeviceptr)to, runtime_context(), (CUdeviceptr)from, runtime_context(), bytes));
}

cudaError_t cudaMemcpyPeerAsync(void *to, int toDevice, const void *from, int fromDevice, size_t bytes,
                                cudaStream_t stream) {
    (void)toDevice, (void)fromDevice;
    return RUNTIME_CALL(cuMemcpyPeerAsync((CUdeviceptr)to, runtime_context(), (CUdeviceptr)from,
                                          runtime_context(), bytes, stream));
}

cudaError_t cudaMemset(void *to, int value, size_t bytes) {
    return RUNTIME_CALL(cuMemsetD8_v2((CUdeviceptr)to, (unsigned char)value, bytes));
}

cudaError_t cudaMemset_ptds(void *to, int value, size_t bytes) {
    return RUNTIME_CALL(cuMemsetD8_v2_ptds((CUdeviceptr)to, (unsigned char)value, bytes));
}

cudaError_t cudaMemsetAsync(void *to, int value, size_t bytes, cudaStream_t stream) {
    return RUNTIME_CALL(cuMemsetD8Async((CUdeviceptr)to, (unsigned char)value, bytes, stream));
}

cudaError_t cudaMemsetAsync_ptsz(void *to, int value, size_t bytes, cudaStream_t stream) {
    return RUNTIME_CALL(cuMemsetD8Async_ptsz((CUdeviceptr)to, (unsigned char)value, bytes, stream));
}
