// From the driver's opaque handles to the engine's objects.
#pragma once

#include "../engine/graph.h"
#include "../engine/stream.h"
#include "cuda.h"

static inline struct stream *stream_of_handle(CUstream handle, bool per_thread) {
    return stream_of((void *)handle, per_thread);
}

static inline struct graph *graph_of_handle(CUgraph handle) {
    struct graph *graph = (struct graph *)handle;
    return graph_is_valid(graph) ? graph : NULL;
}
