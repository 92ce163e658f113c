// Events of the stand-in driver.
#include "../engine/event.h"

#include "../engine/fault.h"
#include "handle.h"

static struct event *event_of(CUevent handle) {
    struct event *event = (struct event *)handle;
    return event_is_valid(event) ? event : NULL;
}

CUresult cuEventCreate(CUevent *event, unsigned flags) {
    if (!event)
        return CUDA_ERROR_INVALID_VALUE;
    *event = (CUevent)event_create(flags);
    return *event ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult record(CUevent handle, struct stream *stream) {
    struct event *event = event_of(handle);
    if (!event || !stream)
        return CUDA_ERROR_INVALID_HANDLE;
    event_record(event, stream);
    return CUDA_SUCCESS;
}

CUresult cuEventRecord(CUevent event, CUstream stream) {
    return record(event, stream_of_handle(stream, false));
}

CUresult cuEventRecord_ptsz(CUevent event, CUstream stream) {
    return record(event, stream_of_handle(stream, true));
}

CUresult cuEventRecordWithFlags(CUevent event, CUstream stream, unsigned flags) {
    (void)flags;
    return record(event, stream_of_handle(stream, false));
}

CUresult cuEventRecordWithFlags_ptsz(CUevent event, CUstream stream, unsigned flags) {
    (void)flags;
    return record(event, stream_of_handle(stream, true));
}

static CUresult hold_up(CUevent handle, struct stream *stream) {
    struct event *event = event_of(handle);
    if (!event || !stream)
        return CUDA_ERROR_INVALID_HANDLE;
    event_hold_up(event, stream);
    return CUDA_SUCCESS;
}

CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned flags) {
    (void)flags;
    return hold_up(event, stream_of_handle(stream, false));
}

CUresult cuStreamWaitEvent_ptsz(CUstream stream, CUevent event, unsigned flags) {
    (void)flags;
    return hold_up(event, stream_of_handle(stream, true));
}

CUresult cuEventSynchronize(CUevent handle) {
    struct event *event = event_of(handle);
    if (!event)
        return CUDA_ERROR_INVALID_HANDLE;
    fault_sync();
    event_wait(event);
    return CUDA_SUCCESS;
}

CUresult cuEventQuery(CUevent handle) {
    struct event *event = event_of(handle);
    if (!event)
        return CUDA_ERROR_INVALID_HANDLE;
    return event_is_done(event) ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

CUresult cuEventElapsedTime(float *milliseconds, CUevent start, CUevent end) {
    int64_t ns;
    if (!event_of(start) || !event_of(end) || !milliseconds)
        return CUDA_ERROR_INVALID_HANDLE;
    switch (event_elapsed(event_of(start), event_of(end), &ns)) {
    case ELAPSED:
        *milliseconds = (float)((double)ns / 1e6);
        return CUDA_SUCCESS;
    case NOT_YET:
        return CUDA_ERROR_NOT_READY;
    case NEVER_RECORDED:
        break;
    }
    return CUDA_ERROR_INVALID_HANDLE;
}

CUresult cuEventDestroy_v2(CUevent handle) {
    struct event *event = event_of(handle);
    if (!event)
        return CUDA_ERROR_INVALID_HANDLE;
    event_destroy(event);
    return CUDA_SUCCESS;
}
