// A stand-in libamdhip64 on the same engine as the CUDA one (its own copy of it), with the real names and the
// real ABI.
#include <stddef.h>
#include <stdlib.h>

#include "../engine/control.h"
#include "../engine/fault.h"
#include "../engine/pool.h"
#include "../engine/work.h"

typedef int hipError_t;
typedef struct ihipStream_t *hipStream_t;
typedef struct ihipEvent_t *hipEvent_t;
typedef struct ihipModuleSymbol_t *hipFunction_t;
typedef struct hipGraphExec *hipGraphExec_t;
typedef struct {
    unsigned x, y, z;
} dim3;

enum {
    hipSuccess = 0,
    hipErrorInvalidValue = 1,
    hipErrorInvalidDevice = 101,
    hipErrorInvalidHandle = 400,
    hipErrorNotReady = 600,
};

enum { hipMemcpyDeviceToDevice = 3 };

struct ihipEvent_t {
    struct mark *mark;
};

#define EXPORTED __attribute__((visibility("default")))
#define MODULE_LAUNCH_ARGUMENTS                                                                              \
    hipFunction_t function, unsigned gridX, unsigned gridY, unsigned gridZ, unsigned blockX,                 \
        unsigned blockY, unsigned blockZ

static __thread int current_device;

EXPORTED hipError_t hipGetDeviceCount(int *count) {
    *count = (int)CONTROL(devices);
    return hipSuccess;
}

EXPORTED hipError_t hipSetDevice(int device) {
    if (device < 0 || device >= (int)CONTROL(devices))
        return hipErrorInvalidDevice;
    current_device = device;
    return hipSuccess;
}

EXPORTED hipError_t hipMalloc(void **pointer, size_t bytes) {
    return pool_alloc(bytes, (uint64_t *)pointer);
}

EXPORTED hipError_t hipFree(void *pointer) {
    streams_wait_all();
    return pointer ? pool_free((uint64_t)pointer) : hipSuccess;
}

EXPORTED hipError_t hipMallocAsync(void **pointer, size_t bytes, hipStream_t stream) {
    return stream_of(stream, false) ? pool_alloc(bytes, (uint64_t *)pointer) : hipErrorInvalidHandle;
}

EXPORTED hipError_t hipFreeAsync(void *pointer, hipStream_t stream) {
    return stream_of(stream, false) ? pool_free((uint64_t)pointer) : hipErrorInvalidHandle;
}

static hipError_t copy(struct stream *stream, size_t bytes, int kind) {
    if (!stream)
        return hipErrorInvalidHandle;
    fault_copy();
    enum work_kind work = kind == hipMemcpyDeviceToDevice ? WORK_DEVICE_COPY : WORK_COPY;
    work_submit(stream, (struct work){.kind = work, .bytes = bytes});
    return hipSuccess;
}

EXPORTED hipError_t hipMemcpy(void *to, const void *from, size_t bytes, int kind) {
    if (!to || !from)
        return hipErrorInvalidValue;
    struct stream *stream = stream_of(NULL, false);
    hipError_t result = copy(stream, bytes, kind);
    stream_wait(stream);
    return result;
}

EXPORTED hipError_t hipMemcpyAsync(void *to, const void *from, size_t bytes, int kind, hipStream_t stream) {
    return to && from ? copy(stream_of(stream, false), bytes, kind) : hipErrorInvalidValue;
}

static hipError_t launch(const void *function, uint64_t threads, hipStream_t handle) {
    if (CONTROL(null))
        return hipSuccess;
    struct stream *stream = stream_of(handle, false);
    if (!stream || !function)
        return hipErrorInvalidHandle;
    if (!threads)
        return hipErrorInvalidValue;
    int fault = fault_launch();
    if (fault)
        return fault;
    work_submit(stream, (struct work){.kind = WORK_KERNEL});
    return hipSuccess;
}

EXPORTED hipError_t hipLaunchKernel(const void *function, dim3 grid, dim3 block, void **args,
                                    size_t sharedBytes, hipStream_t stream) {
    (void)args, (void)sharedBytes;
    return launch(function, (uint64_t)grid.x * grid.y * grid.z * block.x * block.y * block.z, stream);
}

EXPORTED hipError_t hipModuleLaunchKernel(MODULE_LAUNCH_ARGUMENTS, unsigned sharedBytes, hipStream_t stream,
                                          void **parameters, void **extra) {
    (void)sharedBytes, (void)parameters, (void)extra;
    return launch(function, (uint64_t)gridX * gridY * gridZ * blockX * blockY * blockZ, stream);
}

// Its grid counts threads, not blocks.
EXPORTED hipError_t hipExtModuleLaunchKernel(MODULE_LAUNCH_ARGUMENTS, size_t sharedBytes, hipStream_t stream,
                                             void **parameters, void **extra, hipEvent_t start,
                                             hipEvent_t stop, uint32_t flags) {
    (void)sharedBytes, (void)parameters, (void)extra, (void)start, (void)stop, (void)flags;
    return launch(function, (uint64_t)gridX * gridY * gridZ * blockX * blockY * blockZ, stream);
}

EXPORTED hipError_t hipStreamCreate(hipStream_t *stream) {
    *stream = (hipStream_t)stream_create(0, 0);
    return hipSuccess;
}

EXPORTED hipError_t hipStreamDestroy(hipStream_t handle) {
    struct stream *stream = stream_of(handle, false);
    return stream && stream_destroy(stream) ? hipSuccess : hipErrorInvalidHandle;
}

EXPORTED hipError_t hipStreamSynchronize(hipStream_t handle) {
    struct stream *stream = stream_of(handle, false);
    if (!stream)
        return hipErrorInvalidHandle;
    fault_sync();
    stream_wait(stream);
    return hipSuccess;
}

EXPORTED hipError_t hipDeviceSynchronize(void) {
    fault_sync();
    streams_wait_all();
    return hipSuccess;
}

EXPORTED hipError_t hipEventCreate(hipEvent_t *event) {
    *event = calloc(1, sizeof **event);
    return *event ? hipSuccess : hipErrorInvalidValue;
}

EXPORTED hipError_t hipEventRecord(hipEvent_t event, hipStream_t handle) {
    struct stream *stream = stream_of(handle, false);
    struct mark *mark = stream && event ? mark_create(stream) : NULL;
    if (!mark)
        return hipErrorInvalidHandle;
    stream_push(stream, (struct item){.kind = ITEM_RECORD, .mark = mark_share(mark)});
    mark_release(event->mark);
    event->mark = mark;
    return hipSuccess;
}

EXPORTED hipError_t hipEventSynchronize(hipEvent_t event) {
    if (!event)
        return hipErrorInvalidHandle;
    fault_sync();
    if (event->mark)
        mark_wait(event->mark, CONTROL(sync));
    return hipSuccess;
}

EXPORTED hipError_t hipEventQuery(hipEvent_t event) {
    if (!event)
        return hipErrorInvalidHandle;
    return !event->mark || mark_is_done(event->mark) ? hipSuccess : hipErrorNotReady;
}

// Nothing here captures graphs, so any handle is one kernel.
EXPORTED hipError_t hipGraphLaunch(hipGraphExec_t executable, hipStream_t handle) {
    struct stream *stream = stream_of(handle, false);
    if (!stream || !executable)
        return hipErrorInvalidHandle;
    work_submit(stream, (struct work){.kind = WORK_KERNEL});
    return hipSuccess;
}
