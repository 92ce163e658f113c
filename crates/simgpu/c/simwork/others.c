// hip, ibverbs: the libraries of other vendors.
#define _GNU_SOURCE
#include <inttypes.h>
#include <stdlib.h>
#include <unistd.h>

#include "../engine/control.h"
#include "commands.h"
#include "gate.h"
#include "library.h"
#include "options.h"
#include "truth.h"

typedef struct {
    unsigned x, y, z;
} dim3;

static uint64_t launches = 100, bytes = 1 << 16, events = 1;

int command_hip(char **arguments) {
    const struct option options[] = {
        NUMBER("launches", launches, "launches, each followed by a copy"),
        NUMBER("bytes", bytes, "bytes of each copy"),
        END,
    };
    options_parse("hip", "launches and copies through HIP", arguments, options);
    void *hip = library_open("libamdhip64.so.6");
    int (*hipMalloc)(void **, size_t) = library_function(hip, "hipMalloc");
    int (*hipFree)(void *) = library_function(hip, "hipFree");
    int (*hipStreamCreate)(void **) = library_function(hip, "hipStreamCreate");
    int (*hipStreamDestroy)(void *) = library_function(hip, "hipStreamDestroy");
    int (*hipStreamSynchronize)(void *) = library_function(hip, "hipStreamSynchronize");
    int (*hipDeviceSynchronize)(void) = library_function(hip, "hipDeviceSynchronize");
    int (*hipMemcpyAsync)(void *, const void *, size_t, int, void *) =
        library_function(hip, "hipMemcpyAsync");
    int (*hipLaunchKernel)(const void *, dim3, dim3, void **, size_t, void *) =
        library_function(hip, "hipLaunchKernel");
    truth_begin();
    gate_wait();
    const dim3 grid = {16, 1, 1}, block = {64, 1, 1};
    void *stream, *buffer;
    CALL(hipStreamCreate, &stream);
    if (CALL(hipMalloc, &buffer, bytes) != 0)
        options_refuse("hip: the device has no %" PRIu64 " bytes", bytes);
    for (uint64_t at = 0; at < launches && !gate_is_stopped(); at++) {
        CALL(hipLaunchKernel, (const void *)command_hip, grid, block, NULL, 0, stream);
        CALL(hipMemcpyAsync, buffer, &grid, bytes, 1, stream);
        CALL(hipStreamSynchronize, stream);
    }
    CALL(hipDeviceSynchronize);
    CALL(hipFree, buffer);
    CALL(hipStreamDestroy, stream);
    truth_print("hip");
    return 0;
}

// ---- ibverbs

static struct control_entry *own_page; // NULL where others raise the events
static char own_path[4096];

// Without a control page nobody else could raise events, so this process gets one of its own.
static void prepare_events(void) {
    if (getenv("SIMGPU_CONTROL") || getenv("SIMGPU_ASYNC_EVENT"))
        return;
    const char *folder = getenv("TMPDIR");
    snprintf(own_path, sizeof own_path, "%s/simwork-XXXXXX", folder ? folder : "/tmp");
    int file = mkstemp(own_path);
    if (file < 0)
        options_refuse("ibverbs: cannot write %s", own_path);
    close(file);
    own_page = control_open(own_path);
    setenv("SIMGPU_CONTROL", own_path, 1);
}

// From IBV_EVENT_PORT_ERR on, each of another type; 0 would be none.
static void raise_event(uint64_t number) {
    enum { PORT_ERR = 10, TYPES = 20 };
    if (own_page)
        own_page[CONTROL_async_event].value = 1 + (PORT_ERR - 1 + number) % (TYPES - 1);
}

int command_ibverbs(char **arguments) {
    const struct option options[] = {NUMBER("events", events, "events to wait for"), END};
    options_parse("ibverbs", "waits for asynchronous events of an InfiniBand device", arguments, options);
    prepare_events();
    void *verbs = library_open("libibverbs.so.1");
    void **(*ibv_get_device_list)(int *) = library_function(verbs, "ibv_get_device_list");
    void (*ibv_free_device_list)(void **) = library_function(verbs, "ibv_free_device_list");
    void *(*ibv_open_device)(void *) = library_function(verbs, "ibv_open_device");
    int (*ibv_close_device)(void *) = library_function(verbs, "ibv_close_device");
    int (*ibv_get_async_event)(void *, void *) = library_function(verbs, "ibv_get_async_event");
    void (*ibv_ack_async_event)(void *) = library_function(verbs, "ibv_ack_async_event");
    truth_begin();
    gate_wait();
    struct {
        void *element;
        int event_type;
    } event;
    int devices;
    void **list = ibv_get_device_list(&devices);
    void *context = ibv_open_device(list[0]);
    ibv_free_device_list(list);
    fprintf(truth_more(), ",\"event_types\":[");
    for (uint64_t at = 0; at < events && !gate_is_stopped(); at++) {
        raise_event(at);
        LISTED(ibv_get_async_event, "ibv_get_async_event", ibv_get_async_event(context, &event), .bytes = 0);
        ibv_ack_async_event(&event);
        fprintf(truth_more(), "%s%d", at ? "," : "", event.event_type);
    }
    fprintf(truth_more(), "]");
    ibv_close_device(context);
    if (own_page)
        unlink(own_path);
    truth_print("ibverbs");
    return 0;
}
