// Work as callers submit it to a stream: run now, or kept as a node of the graph that the stream is
// capturing.
#pragma once

#include <stdint.h>

#include "stream.h"

struct work {
    enum work_kind { WORK_KERNEL, WORK_COPY, WORK_DEVICE_COPY, WORK_CODE, WORK_HOST } kind;
    uint64_t bytes;
    union {
        stream_code code;
        stream_host_code host;
    };
    void *arg;
};

void work_submit(struct stream *stream, struct work work);

// A captured graph, or an executable copy of one.
struct graph {
    uint32_t magic;
    struct work *nodes;
    size_t count;
    size_t capacity;
};

struct graph *graph_create(void);
struct graph *graph_copy(const struct graph *graph);
// False when the graphs differ in shape.
bool graph_update(struct graph *executable, const struct graph *graph);
bool graph_is_valid(const struct graph *graph);
void graph_destroy(struct graph *graph);
void graph_launch(const struct graph *graph, struct stream *stream);

void work_in_child(void);
