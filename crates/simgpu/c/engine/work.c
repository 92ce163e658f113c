// Work and graphs of work.
#include "work.h"

#include <stdlib.h>
#include <string.h>

#include "control.h"

#define GRAPH_MAGIC 0x69a94000u

static uint64_t transfer_ns(uint64_t bytes, uint64_t bytes_per_s) {
    return (uint64_t)((unsigned __int128)bytes * 1000000000u / bytes_per_s);
}

static uint64_t duration_ns(const struct work *work) {
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

static bool is_code(const struct work *work) {
    return work->kind == WORK_CODE || work->kind == WORK_HOST;
}

static void push_code(struct stream *stream, const struct work *work) {
    struct item item = {.kind = work->kind == WORK_CODE ? ITEM_CODE : ITEM_HOST, .arg = work->arg};
    if (work->kind == WORK_CODE)
        item.code = work->code;
    else
        item.host = work->host;
    stream_push(stream, item);
}

// Several streams of several threads may build one graph.
static pthread_mutex_t building = PTHREAD_MUTEX_INITIALIZER;

static void graph_add(struct graph *graph, struct work work) {
    pthread_mutex_lock(&building);
    if (graph->count == graph->capacity) {
        graph->capacity = graph->capacity ? graph->capacity * 2 : 16;
        graph->nodes = realloc(graph->nodes, graph->capacity * sizeof *graph->nodes);
    }
    graph->nodes[graph->count++] = work;
    pthread_mutex_unlock(&building);
}

void work_submit(struct stream *stream, struct work work) {
    struct graph *graph = stream->capture;
    if (__builtin_expect(graph != NULL, 0))
        graph_add(graph, work);
    else if (is_code(&work))
        push_code(stream, &work);
    else
        stream_push(stream, (struct item){.kind = ITEM_TIMED, .duration_ns = duration_ns(&work)});
}

struct graph *graph_create(void) {
    struct graph *graph = calloc(1, sizeof *graph);
    if (graph)
        graph->magic = GRAPH_MAGIC;
    return graph;
}

struct graph *graph_copy(const struct graph *graph) {
    struct graph *copy = graph_create();
    if (!copy)
        return NULL;
    for (size_t node = 0; node < graph->count; node++)
        graph_add(copy, graph->nodes[node]);
    return copy;
}

bool graph_update(struct graph *executable, const struct graph *graph) {
    if (executable->count != graph->count)
        return false;
    for (size_t node = 0; node < graph->count; node++)
        if (executable->nodes[node].kind != graph->nodes[node].kind)
            return false;
    if (graph->count)
        memcpy(executable->nodes, graph->nodes, graph->count * sizeof *graph->nodes);
    return true;
}

bool graph_is_valid(const struct graph *graph) {
    return graph && graph->magic == GRAPH_MAGIC;
}

void graph_destroy(struct graph *graph) {
    graph->magic = 0;
    free(graph->nodes);
    free(graph);
}

void graph_launch(const struct graph *graph, struct stream *stream) {
    struct graph *outer = stream->capture;
    uint64_t busy_ns = 0;
    for (size_t node = 0; node < graph->count; node++) {
        const struct work *work = &graph->nodes[node];
        if (outer) {
            graph_add(outer, *work);
        } else if (is_code(work)) {
            stream_push(stream, (struct item){.kind = ITEM_TIMED, .duration_ns = busy_ns});
            push_code(stream, work);
            busy_ns = 0;
        } else {
            busy_ns += duration_ns(work);
        }
    }
    if (!outer)
        stream_push(stream, (struct item){.kind = ITEM_TIMED, .duration_ns = busy_ns});
}

void work_in_child(void) {
    pthread_mutex_init(&building, NULL);
}
