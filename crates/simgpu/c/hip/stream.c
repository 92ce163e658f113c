// Streams of the stand-in HIP.
#include "../engine/stream.h"

#include "../engine/fault.h"
#include "hip.h"

static hipError_t create(hipStream_t *stream, unsigned flags) {
    if (!stream)
        return hipErrorInvalidValue;
    *stream = (hipStream_t)stream_create(flags, 0);
    return *stream ? hipSuccess : hipErrorOutOfMemory;
}

hipError_t hipStreamCreate(hipStream_t *stream) {
    return create(stream, 0);
}

hipError_t hipStreamCreateWithFlags(hipStream_t *stream, unsigned flags) {
    return create(stream, flags);
}

hipError_t hipStreamDestroy(hipStream_t handle) {
    struct stream *stream = stream_of(handle, false);
    return stream && stream_destroy(stream) ? hipSuccess : hipErrorInvalidHandle;
}

hipError_t hipStreamSynchronize(hipStream_t handle) {
    struct stream *stream = stream_of(handle, false);
    if (!stream)
        return hipErrorInvalidHandle;
    if (stream->capture)
        return hipErrorStreamCaptureUnsupported;
    fault_sync();
    stream_wait(stream);
    return hipSuccess;
}

hipError_t hipStreamQuery(hipStream_t handle) {
    struct stream *stream = stream_of(handle, false);
    if (!stream)
        return hipErrorInvalidHandle;
    return stream_is_idle(stream) ? hipSuccess : hipErrorNotReady;
}
