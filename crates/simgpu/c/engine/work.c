// Work: how long it takes, and how it gets onto a stream.
#include "work.h"

#include "control.h"
#include "graph.h"

static uint64_t transfer_ns(uint64_t bytes, uint64_t bytes_per_s) {
    return (uint64_t)((unsigned __int128)bytes * 1000000000u / bytes_per_s);
}

uint64_t work_duration_ns(const struct work *work) {
    switch (work->kind) {
    case WORK_KERNEL:
        return CONTROL(kernel_ns);
    case WORK_COPY:
        return transfer_ns(work->bytes, CONTROL(copy_bytes_per_s));
    case WORK_DEVICE_COPY:
        return transfer_ns(work->bytes, CONTROL(memory_bytes_per_s));
    default:
        return 0;
    }
}

bool work_is_code(const struct work *work) {
    return work->kind == WORK_CODE || work->kind == WORK_HOST;
}

void work_push_code(struct stream *stream, const struct work *work) {
    struct item item = {.kind = work->kind == WORK_CODE ? ITEM_CODE : ITEM_HOST, .arg = work->arg};
    if (work->kind == WORK_CODE)
        item.code = work->code;
    else
        item.host = work->host;
    stream_push(stream, item);
}

void work_submit(struct stream *stream, struct work work) {
    struct graph *graph = stream->capture;
    if (__builtin_expect(graph != NULL, 0))
        graph_add(graph, work);
    else if (work_is_code(&work))
        work_push_code(stream, &work);
    else
        stream_push(stream, (struct item){.kind = ITEM_TIMED,
                                          .duration_ns = work_duration_ns(&work),
                                          .is_copy = work.kind != WORK_KERNEL});
}
