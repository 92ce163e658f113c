// Streams of the stand-in driver, and its hooks on them.
#include "../engine/clock.h"
#include "../engine/control.h"
#include "../engine/fault.h"
#include "../engine/work.h"
#include "handle.h"

static CUresult create(CUstream *handle, unsigned flags, int priority) {
    if (!handle)
        return CUDA_ERROR_INVALID_VALUE;
    struct stream *stream = stream_create(flags, priority);
    *handle = (CUstream)stream;
    return stream ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuStreamCreate(CUstream *stream, unsigned flags) {
    return create(stream, flags, 0);
}

CUresult cuStreamCreateWithPriority(CUstream *stream, unsigned flags, int priority) {
    return create(stream, flags, priority);
}

CUresult cuStreamDestroy_v2(CUstream handle) {
    struct stream *stream = stream_of_handle(handle, false);
    return stream && stream_destroy(stream) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

static CUresult synchronize(CUstream handle, bool per_thread) {
    struct stream *stream = stream_of_handle(handle, per_thread);
    if (!stream)
        return CUDA_ERROR_INVALID_HANDLE;
    if (stream->capture)
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    fault_sync();
    stream_wait(stream);
    return CUDA_SUCCESS;
}

CUresult cuStreamSynchronize(CUstream stream) {
    return synchronize(stream, false);
}

CUresult cuStreamSynchronize_ptsz(CUstream stream) {
    return synchronize(stream, true);
}

static CUresult query(CUstream handle, bool per_thread) {
    struct stream *stream = stream_of_handle(handle, per_thread);
    if (!stream)
        return CUDA_ERROR_INVALID_HANDLE;
    return stream_is_idle(stream) ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

CUresult cuStreamQuery(CUstream stream) {
    return query(stream, false);
}

CUresult cuStreamQuery_ptsz(CUstream stream) {
    return query(stream, true);
}

CUresult simgpu_enqueue(CUstream handle, uint64_t (*code)(void *), void *arg) {
    struct stream *stream = stream_of_handle(handle, false);
    if (!stream)
        return CUDA_ERROR_INVALID_HANDLE;
    work_submit(stream, (struct work){.kind = WORK_CODE, .code = code, .arg = arg});
    return CUDA_SUCCESS;
}

int simgpu_is_capturing(CUstream handle) {
    struct stream *stream = stream_of_handle(handle, false);
    return stream && stream->capture;
}

uint64_t simgpu_get(const char *name) {
    enum control_field field = control_find(name);
    return field == CONTROL_COUNT ? 0 : control_get(field);
}

int simgpu_set(const char *name, uint64_t value) {
    enum control_field field = control_find(name);
    if (field == CONTROL_COUNT)
        return -1;
    control_set_own(field, value);
    return 0;
}

void simgpu_publish_busy(void) {
    static uint64_t last_ns, last_computed_ns;
    uint64_t now = now_ns(), computed = streams_computed_ns();
    if (last_ns) {
        uint64_t percent = (computed - last_computed_ns) * 100 / (now - last_ns + 1);
        control_init();
        control_page[CONTROL_nvml_sm_pct].value = percent < 100 ? percent : 100;
    }
    last_ns = now;
    last_computed_ns = computed;
}

void simgpu_in_launch(void (*run)(void)) {
    fault_run_in_launch(run);
}

void simgpu_await_held_lock(void) {
    fault_await_held_lock();
}
