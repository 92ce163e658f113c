// Copies and fills of the stand-in driver. They take the time that their bytes need; no data moves.
#include "../engine/fault.h"
#include "../engine/work.h"
#include "handle.h"

enum crossing { CROSSES_THE_BUS, STAYS_ON_THE_DEVICE };

static CUresult copy_async(size_t bytes, enum crossing crossing, struct stream *stream) {
    if (!stream)
        return CUDA_ERROR_INVALID_HANDLE;
    fault_copy();
    work_submit(stream, (struct work){
                            .kind = crossing == CROSSES_THE_BUS ? WORK_COPY : WORK_DEVICE_COPY,
                            .bytes = bytes,
                        });
    return CUDA_SUCCESS;
}

// Copies without a stream use the default stream (the thread's own for the _ptds forms) and wait for it.
static CUresult copy(size_t bytes, enum crossing crossing, bool per_thread) {
    struct stream *stream = stream_of_handle(NULL, per_thread);
    CUresult result = copy_async(bytes, crossing, stream);
    if (result == CUDA_SUCCESS && !stream->capture)
        stream_wait(stream);
    return result;
}

#define COPY(name, crossing, to_type, from_type)                                                             \
    CUresult name(to_type to, from_type from, size_t bytes) {                                                \
        return to && from ? copy(bytes, crossing, false) : CUDA_ERROR_INVALID_VALUE;                         \
    }                                                                                                        \
    CUresult name##_ptds(to_type to, from_type from, size_t bytes) {                                         \
        return to && from ? copy(bytes, crossing, true) : CUDA_ERROR_INVALID_VALUE;                          \
    }

#define COPY_ASYNC(name, crossing, to_type, from_type)                                                       \
    CUresult name(to_type to, from_type from, size_t bytes, CUstream stream) {                               \
        return to && from ? copy_async(bytes, crossing, stream_of_handle(stream, false))                     \
                          : CUDA_ERROR_INVALID_VALUE;                                                        \
    }                                                                                                        \
    CUresult name##_ptsz(to_type to, from_type from, size_t bytes, CUstream stream) {                        \
        return to && from ? copy_async(bytes, crossing, stream_of_handle(stream, true))                      \
                          : CUDA_ERROR_INVALID_VALUE;                                                        \
    }

COPY(cuMemcpy, CROSSES_THE_BUS, CUdeviceptr, CUdeviceptr)
COPY(cuMemcpyHtoD_v2, CROSSES_THE_BUS, CUdeviceptr, const void *)
COPY(cuMemcpyDtoH_v2, CROSSES_THE_BUS, void *, CUdeviceptr)
COPY(cuMemcpyDtoD_v2, STAYS_ON_THE_DEVICE, CUdeviceptr, CUdeviceptr)
COPY_ASYNC(cuMemcpyAsync, CROSSES_THE_BUS, CUdeviceptr, CUdeviceptr)
COPY_ASYNC(cuMemcpyHtoDAsync_v2, CROSSES_THE_BUS, CUdeviceptr, const void *)
COPY_ASYNC(cuMemcpyDtoHAsync_v2, CROSSES_THE_BUS, void *, CUdeviceptr)
COPY_ASYNC(cuMemcpyDtoDAsync_v2, STAYS_ON_THE_DEVICE, CUdeviceptr, CUdeviceptr)

CUresult cuMemcpyPeer(CUdeviceptr to, CUcontext toContext, CUdeviceptr from, CUcontext fromContext,
                      size_t bytes) {
    (void)toContext, (void)fromContext;
    return to && from ? copy(bytes, CROSSES_THE_BUS, false) : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemcpyPeerAsync(CUdeviceptr to, CUcontext toContext, CUdeviceptr from, CUcontext fromContext,
                           size_t bytes, CUstream stream) {
    (void)toContext, (void)fromContext;
    return to && from ? copy_async(bytes, CROSSES_THE_BUS, stream_of_handle(stream, false))
                      : CUDA_ERROR_INVALID_VALUE;
}

static CUresult copy_2d(const CUDA_MEMCPY2D *shape, bool per_thread) {
    return shape ? copy(shape->WidthInBytes * shape->Height, CROSSES_THE_BUS, per_thread)
                 : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemcpy2D_v2(const CUDA_MEMCPY2D *shape) {
    return copy_2d(shape, false);
}

CUresult cuMemcpy2D_v2_ptds(const CUDA_MEMCPY2D *shape) {
    return copy_2d(shape, true);
}

CUresult cuMemcpy2DUnaligned_v2(const CUDA_MEMCPY2D *shape) {
    return copy_2d(shape, false);
}

static CUresult copy_2d_async(const CUDA_MEMCPY2D *shape, struct stream *stream) {
    return shape ? copy_async(shape->WidthInBytes * shape->Height, CROSSES_THE_BUS, stream)
                 : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D *shape, CUstream stream) {
    return copy_2d_async(shape, stream_of_handle(stream, false));
}

CUresult cuMemcpy2DAsync_v2_ptsz(const CUDA_MEMCPY2D *shape, CUstream stream) {
    return copy_2d_async(shape, stream_of_handle(stream, true));
}

// Fills do not wait, not even those without a stream: the real ones on device memory do not either.
static CUresult fill(CUdeviceptr to, size_t bytes, struct stream *stream) {
    return to ? copy_async(bytes, STAYS_ON_THE_DEVICE, stream) : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemsetD8_v2(CUdeviceptr to, unsigned char value, size_t count) {
    (void)value;
    return fill(to, count, stream_of_handle(NULL, false));
}

CUresult cuMemsetD8_v2_ptds(CUdeviceptr to, unsigned char value, size_t count) {
    (void)value;
    return fill(to, count, stream_of_handle(NULL, true));
}

CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t count, CUstream stream) {
    (void)value;
    return fill(to, count, stream_of_handle(stream, false));
}

CUresult cuMemsetD8Async_ptsz(CUdeviceptr to, unsigned char value, size_t count, CUstream stream) {
    (void)value;
    return fill(to, count, stream_of_handle(stream, true));
}

CUresult cuMemsetD32_v2(CUdeviceptr to, unsigned value, size_t count) {
    (void)value;
    return fill(to, count * 4, stream_of_handle(NULL, false));
}

CUresult cuMemsetD32Async(CUdeviceptr to, unsigned value, size_t count, CUstream stream) {
    (void)value;
    return fill(to, count * 4, stream_of_handle(stream, false));
}

CUresult cuMemsetD32Async_ptsz(CUdeviceptr to, unsigned value, size_t count, CUstream stream) {
    (void)value;
    return fill(to, count * 4, stream_of_handle(stream, true));
}
