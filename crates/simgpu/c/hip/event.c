// Events of the stand-in HIP.
#include "../engine/event.h"

#include "../engine/fault.h"
#include "hip.h"

static struct event *event_of(hipEvent_t handle) {
    struct event *event = (struct event *)handle;
    return event_is_valid(event) ? event : NULL;
}

static hipError_t create(hipEvent_t *event, unsigned flags) {
    if (!event)
        return hipErrorInvalidValue;
    *event = (hipEvent_t)event_create(flags);
    return *event ? hipSuccess : hipErrorOutOfMemory;
}

hipError_t hipEventCreate(hipEvent_t *event) {
    return create(event, 0);
}

hipError_t hipEventCreateWithFlags(hipEvent_t *event, unsigned flags) {
    return create(event, flags);
}

static hipError_t record(hipEvent_t handle, hipStream_t stream_handle) {
    struct event *event = event_of(handle);
    struct stream *stream = stream_of(stream_handle, false);
    if (!event || !stream)
        return hipErrorInvalidHandle;
    event_record(event, stream);
    return hipSuccess;
}

hipError_t hipEventRecord(hipEvent_t event, hipStream_t stream) {
    return record(event, stream);
}

hipError_t hipEventRecordWithFlags(hipEvent_t event, hipStream_t stream, unsigned flags) {
    (void)flags;
    return record(event, stream);
}

hipError_t hipStreamWaitEvent(hipStream_t stream_handle, hipEvent_t handle, unsigned flags) {
    (void)flags;
    struct event *event = event_of(handle);
    struct stream *stream = stream_of(stream_handle, false);
    if (!event || !stream)
        return hipErrorInvalidHandle;
    event_hold_up(event, stream);
    return hipSuccess;
}

hipError_t hipEventSynchronize(hipEvent_t handle) {
    struct event *event = event_of(handle);
    if (!event)
        return hipErrorInvalidHandle;
    fault_sync();
    event_wait(event);
    return hipSuccess;
}

hipError_t hipEventQuery(hipEvent_t handle) {
    struct event *event = event_of(handle);
    if (!event)
        return hipErrorInvalidHandle;
    return event_is_done(event) ? hipSuccess : hipErrorNotReady;
}

hipError_t hipEventElapsedTime(float *milliseconds, hipEvent_t start, hipEvent_t end) {
    int64_t ns;
    if (!event_of(start) || !event_of(end) || !milliseconds)
        return hipErrorInvalidHandle;
    enum elapsed elapsed = event_elapsed(event_of(start), event_of(end), &ns);
    if (elapsed == ELAPSED)
        *milliseconds = (float)((double)ns / 1e6);
    return elapsed == ELAPSED ? hipSuccess : elapsed == NOT_YET ? hipErrorNotReady : hipErrorInvalidHandle;
}

hipError_t hipEventDestroy(hipEvent_t handle) {
    struct event *event = event_of(handle);
    if (!event)
        return hipErrorInvalidHandle;
    event_destroy(event);
    return hipSuccess;
}
