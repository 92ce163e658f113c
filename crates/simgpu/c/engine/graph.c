// A graph of work.
#include "graph.h"

#include <stdlib.h>
#include <string.h>

#define GRAPH_MAGIC 0x69a94000u

// Several streams of several threads may build one graph.
static pthread_mutex_t building = PTHREAD_MUTEX_INITIALIZER;

struct graph *graph_create(void) {
    struct graph *graph = calloc(1, sizeof *graph);
    if (graph)
        graph->magic = GRAPH_MAGIC;
    return graph;
}

bool graph_is_valid(const struct graph *graph) {
    return graph && graph->magic == GRAPH_MAGIC;
}

static bool make_room(struct graph *graph) {
    if (graph->count < graph->capacity)
        return true;
    size_t capacity = graph->capacity ? graph->capacity * 2 : 16;
    struct work **nodes = realloc(graph->nodes, capacity * sizeof *nodes);
    if (!nodes)
        return false;
    graph->nodes = nodes;
    graph->capacity = capacity;
    return true;
}

struct work *graph_add(struct graph *graph, struct work work) {
    struct work *node = malloc(sizeof *node);
    pthread_mutex_lock(&building);
    if (node && make_room(graph)) {
        *node = work;
        graph->nodes[graph->count++] = node;
    } else {
        free(node);
        node = NULL;
    }
    pthread_mutex_unlock(&building);
    return node;
}

struct work *graph_add_child(struct graph *graph, const struct graph *child) {
    struct graph *copy = graph_copy(child);
    return copy ? graph_add(graph, (struct work){.kind = WORK_GRAPH, .child = copy}) : NULL;
}

struct graph *graph_copy(const struct graph *graph) {
    struct graph *copy = graph_create();
    for (size_t at = 0; copy && at < graph->count; at++) {
        if (graph->nodes[at]->kind == WORK_GRAPH)
            graph_add_child(copy, graph->nodes[at]->child);
        else
            graph_add(copy, *graph->nodes[at]);
    }
    return copy;
}

void graph_destroy(struct graph *graph) {
    for (size_t at = 0; at < graph->count; at++) {
        if (graph->nodes[at]->kind == WORK_GRAPH)
            graph_destroy(graph->nodes[at]->child);
        free(graph->nodes[at]);
    }
    graph->magic = 0;
    free(graph->nodes);
    free(graph);
}

static bool same_shape(const struct graph *one, const struct graph *other) {
    if (one->count != other->count)
        return false;
    for (size_t at = 0; at < one->count; at++) {
        const struct work *node = one->nodes[at], *twin = other->nodes[at];
        if (node->kind != twin->kind || (node->kind == WORK_GRAPH && !same_shape(node->child, twin->child)))
            return false;
    }
    return true;
}

static void copy_nodes(struct graph *to, const struct graph *from) {
    for (size_t at = 0; at < to->count; at++) {
        if (to->nodes[at]->kind == WORK_GRAPH)
            copy_nodes(to->nodes[at]->child, from->nodes[at]->child);
        else
            *to->nodes[at] = *from->nodes[at];
    }
}

bool graph_update(struct graph *executable, const struct graph *graph) {
    if (!same_shape(executable, graph))
        return false;
    copy_nodes(executable, graph);
    return true;
}

static void push_busy(struct stream *stream, uint64_t *busy_ns) {
    stream_push(stream, (struct item){.kind = ITEM_TIMED, .duration_ns = *busy_ns});
    *busy_ns = 0;
}

// `busy_ns`: work of known length that is not on the stream yet, because the next node may go on with it.
static void run_nodes(const struct graph *graph, struct stream *stream, uint64_t *busy_ns) {
    for (size_t at = 0; at < graph->count; at++) {
        const struct work *work = graph->nodes[at];
        if (work->kind == WORK_GRAPH) {
            run_nodes(work->child, stream, busy_ns);
        } else if (work_is_code(work)) {
            push_busy(stream, busy_ns);
            work_push_code(stream, work);
        } else {
            *busy_ns += work_duration_ns(work);
        }
    }
}

void graph_launch(const struct graph *graph, struct stream *stream) {
    struct graph *outer = stream->capture;
    uint64_t busy_ns = 0;
    if (outer) {
        graph_add_child(outer, graph);
        return;
    }
    run_nodes(graph, stream, &busy_ns);
    push_busy(stream, &busy_ns);
}

void graphs_in_child(void) {
    pthread_mutex_init(&building, NULL);
}
