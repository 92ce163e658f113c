// A stand-in libibverbs: one device, and asynchronous events that the control page asks for.
#include <stdlib.h>

#include "../engine/clock.h"
#include "../engine/control.h"

struct ibv_device {
    const char *name;
};

struct ibv_context {
    struct ibv_device *device;
};

struct ibv_async_event {
    union {
        void *queue;
        int port_num;
    } element;
    int event_type;
};

#define EXPORTED __attribute__((visibility("default")))

// How long to wait before looking for an event whose writer does not wake anybody.
#define POLL_NS 20000000

static struct ibv_device device = {.name = "simgpu_0"};

EXPORTED struct ibv_device **ibv_get_device_list(int *count) {
    struct ibv_device **list = calloc(2, sizeof *list);
    if (list)
        list[0] = &device;
    if (count)
        *count = list ? 1 : 0;
    return list;
}

EXPORTED void ibv_free_device_list(struct ibv_device **list) {
    free(list);
}

EXPORTED struct ibv_context *ibv_open_device(struct ibv_device *opened) {
    struct ibv_context *context = calloc(1, sizeof *context);
    if (context)
        context->device = opened;
    return context;
}

EXPORTED int ibv_close_device(struct ibv_context *context) {
    free(context);
    return 0;
}

EXPORTED int ibv_get_async_event(struct ibv_context *context, struct ibv_async_event *event) {
    (void)context;
    uint64_t type;
    while ((type = control_take(CONTROL_async_event)) == 0) {
        _Atomic uint32_t *low_half = (_Atomic uint32_t *)&control_page[CONTROL_async_event].value;
        futex_wait(low_half, 0, now_ns() + POLL_NS);
    }
    event->element.port_num = 1;
    event->event_type = (int)type;
    return 0;
}

EXPORTED void ibv_ack_async_event(struct ibv_async_event *event) {
    (void)event;
}
