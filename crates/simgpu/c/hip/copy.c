// Copies and fills of the stand-in HIP. They take the time that their bytes need; no data moves.
#include "../engine/fault.h"
#include "../engine/work.h"
#include "hip.h"

static hipError_t copy_async(const void *to, const void *from, size_t bytes, hipMemcpyKind kind,
                             struct stream *stream) {
    if (!to || !from)
        return hipErrorInvalidValue;
    if (!stream)
        return hipErrorInvalidHandle;
    fault_copy();
    enum work_kind work = kind == hipMemcpyDeviceToDevice ? WORK_DEVICE_COPY : WORK_COPY;
    work_submit(stream, (struct work){.kind = work, .bytes = bytes});
    return hipSuccess;
}

static hipError_t copy(const void *to, const void *from, size_t bytes, hipMemcpyKind kind,
                       hipStream_t handle) {
    struct stream *stream = stream_of(handle, false);
    hipError_t result = copy_async(to, from, bytes, kind, stream);
    if (result == hipSuccess && !stream->capture)
        stream_wait(stream);
    return result;
}

hipError_t hipMemcpy(void *to, const void *from, size_t bytes, hipMemcpyKind kind) {
    return copy(to, from, bytes, kind, NULL);
}

hipError_t hipMemcpyAsync(void *to, const void *from, size_t bytes, hipMemcpyKind kind, hipStream_t stream) {
    return copy_async(to, from, bytes, kind, stream_of(stream, false));
}

// On a stream, and yet it waits.
hipError_t hipMemcpyWithStream(void *to, const void *from, size_t bytes, hipMemcpyKind kind,
                               hipStream_t stream) {
    return copy(to, from, bytes, kind, stream);
}

hipError_t hipMemcpyHtoD(hipDeviceptr_t to, const void *from, size_t bytes) {
    return copy(to, from, bytes, hipMemcpyHostToDevice, NULL);
}

hipError_t hipMemcpyDtoH(void *to, hipDeviceptr_t from, size_t bytes) {
    return copy(to, from, bytes, hipMemcpyDeviceToHost, NULL);
}

hipError_t hipMemcpyDtoD(hipDeviceptr_t to, hipDeviceptr_t from, size_t bytes) {
    return copy(to, from, bytes, hipMemcpyDeviceToDevice, NULL);
}

hipError_t hipMemcpyHtoDAsync(hipDeviceptr_t to, const void *from, size_t bytes, hipStream_t stream) {
    return copy_async(to, from, bytes, hipMemcpyHostToDevice, stream_of(stream, false));
}

hipError_t hipMemcpyDtoHAsync(void *to, hipDeviceptr_t from, size_t bytes, hipStream_t stream) {
    return copy_async(to, from, bytes, hipMemcpyDeviceToHost, stream_of(stream, false));
}

hipError_t hipMemcpyDtoDAsync(hipDeviceptr_t to, hipDeviceptr_t from, size_t bytes, hipStream_t stream) {
    return copy_async(to, from, bytes, hipMemcpyDeviceToDevice, stream_of(stream, false));
}

hipError_t hipMemcpy2D(void *to, size_t toPitch, const void *from, size_t fromPitch, size_t width,
                       size_t height, hipMemcpyKind kind) {
    (void)toPitch, (void)fromPitch;
    return copy(to, from, width * height, kind, NULL);
}

hipError_t hipMemcpy2DAsync(void *to, size_t toPitch, const void *from, size_t fromPitch, size_t width,
                            size_t height, hipMemcpyKind kind, hipStream_t stream) {
    (void)toPitch, (void)fromPitch;
    return copy_async(to, from, width * height, kind, stream_of(stream, false));
}

hipError_t hipMemcpyPeer(void *to, int toDevice, const void *from, int fromDevice, size_t bytes) {
    (void)toDevice, (void)fromDevice;
    return copy(to, from, bytes, hipMemcpyDefault, NULL);
}

hipError_t hipMemcpyPeerAsync(void *to, int toDevice, const void *from, int fromDevice, size_t bytes,
                              hipStream_t stream) {
    (void)toDevice, (void)fromDevice;
    return copy_async(to, from, bytes, hipMemcpyDefault, stream_of(stream, false));
}

static hipError_t fill(void *to, size_t bytes, hipStream_t stream) {
    return copy_async(to, to, bytes, hipMemcpyDeviceToDevice, stream_of(stream, false));
}

hipError_t hipMemset(void *to, int value, size_t bytes) {
    (void)value;
    return fill(to, bytes, NULL);
}

hipError_t hipMemsetAsync(void *to, int value, size_t bytes, hipStream_t stream) {
    (void)value;
    return fill(to, bytes, stream);
}

hipError_t hipMemsetD8(hipDeviceptr_t to, unsigned char value, size_t count) {
    (void)value;
    return fill(to, count, NULL);
}

hipError_t hipMemsetD8Async(hipDeviceptr_t to, unsigned char value, size_t count, hipStream_t stream) {
    (void)value;
    return fill(to, count, stream);
}

hipError_t hipMemsetD32(hipDeviceptr_t to, int value, size_t count) {
    (void)value;
    return fill(to, count * 4, NULL);
}

hipError_t hipMemsetD32Async(hipDeviceptr_t to, int value, size_t count, hipStream_t stream) {
    (void)value;
    return fill(to, count * 4, stream);
}
