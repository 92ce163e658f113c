// Work as callers submit it to a stream: run now, or kept as a node of the graph that the stream is
// capturing.
#pragma once

#include <stdint.h>

#include "stream.h"

struct work {
    enum work_kind { WORK_KERNEL, WORK_COPY, WORK_DEVICE_COPY, WORK_CODE, WORK_HOST, WORK_GRAPH } kind;
    uint64_t bytes;
    union {
        stream_code code;
        stream_host_code host;
        struct graph *child; // owned by the node
    };
    void *arg;
};

void work_submit(struct stream *stream, struct work work);

// Whether the work is code that the stream's thread runs; else it takes a known time.
bool work_is_code(const struct work *work);
void work_push_code(struct stream *stream, const struct work *work);
uint64_t work_duration_ns(const struct work *work);
