// Events of the stand-in driver.
#include "event.h"

#include <stdlib.h>

#include "../engine/control.h"
#include "../engine/fault.h"

#define MAGIC 0xe7e57000u

struct CUevent_st {
    uint32_t magic;
    unsigned flags;
    pthread_mutex_t lock;
    struct mark *mark;     // of the latest record
    struct graph *capture; // set when that record was captured
};

static bool is_valid(CUevent event) {
    return event && event->magic == MAGIC;
}

// A reference to the latest mark, or NULL when the event was never recorded.
static struct mark *latest_mark(CUevent event) {
    pthread_mutex_lock(&event->lock);
    struct mark *mark = mark_share(event->mark);
    pthread_mutex_unlock(&event->lock);
    return mark;
}

CUresult cuEventCreate(CUevent *event, unsigned flags) {
    if (!event)
        return CUDA_ERROR_INVALID_VALUE;
    *event = calloc(1, sizeof **event);
    if (!*event)
        return CUDA_ERROR_OUT_OF_MEMORY;
    (*event)->magic = MAGIC;
    (*event)->flags = flags;
    pthread_mutex_init(&(*event)->lock, NULL);
    return CUDA_SUCCESS;
}

static CUresult record(CUevent event, struct stream *stream) {
    if (!is_valid(event) || !stream)
        return CUDA_ERROR_INVALID_HANDLE;
    struct graph *capture = stream->capture;
    struct mark *mark = capture ? NULL : mark_create(stream);
    if (mark)
        stream_push(stream, (struct item){.kind = ITEM_RECORD, .mark = mark_share(mark)});
    pthread_mutex_lock(&event->lock);
    struct mark *before = event->mark;
    event->mark = mark;
    event->capture = capture;
    pthread_mutex_unlock(&event->lock);
    mark_release(before);
    return CUDA_SUCCESS;
}

CUresult cuEventRecord(CUevent event, CUstream stream) {
    return record(event, stream_of_handle(stream, false));
}

CUresult cuEventRecord_ptsz(CUevent event, CUstream stream) {
    return record(event, stream_of_handle(stream, true));
}

CUresult event_hold_up(CUevent event, struct stream *stream) {
    if (!is_valid(event) || !stream)
        return CUDA_ERROR_INVALID_HANDLE;
    if (event->capture) {
        stream->capture = event->capture;
        return CUDA_SUCCESS;
    }
    struct mark *mark = latest_mark(event);
    if (mark)
        stream_push(stream, (struct item){.kind = ITEM_WAIT, .mark = mark});
    return CUDA_SUCCESS;
}

CUresult cuEventSynchronize(CUevent event) {
    if (!is_valid(event))
        return CUDA_ERROR_INVALID_HANDLE;
    fault_sync();
    struct mark *mark = latest_mark(event);
    if (mark)
        mark_wait(mark, CONTROL(sync) || event->flags & CU_EVENT_BLOCKING_SYNC);
    mark_release(mark);
    return CUDA_SUCCESS;
}

CUresult cuEventQuery(CUevent event) {
    if (!is_valid(event))
        return CUDA_ERROR_INVALID_HANDLE;
    struct mark *mark = latest_mark(event);
    bool done = !mark || mark_is_done(mark);
    mark_release(mark);
    return done ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

CUresult cuEventElapsedTime(float *milliseconds, CUevent start, CUevent end) {
    if (!is_valid(start) || !is_valid(end) || !milliseconds)
        return CUDA_ERROR_INVALID_HANDLE;
    struct mark *first = latest_mark(start), *last = latest_mark(end);
    CUresult result = CUDA_ERROR_INVALID_HANDLE;
    if (first && last) {
        result = CUDA_ERROR_NOT_READY;
        if (mark_is_done(first) && mark_is_done(last)) {
            *milliseconds = (float)((double)(int64_t)(last->done_ns - first->done_ns) / 1e6);
            result = CUDA_SUCCESS;
        }
    }
    mark_release(first);
    mark_release(last);
    return result;
}

CUresult cuEventDestroy_v2(CUevent event) {
    if (!is_valid(event))
        return CUDA_ERROR_INVALID_HANDLE;
    event->magic = 0;
    mark_release(event->mark);
    pthread_mutex_destroy(&event->lock);
    free(event);
    return CUDA_SUCCESS;
}
