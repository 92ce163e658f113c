// A graph of work: captured or built, or an executable copy of one. Its nodes run in the order in which they
// were added, which is one of those that the dependencies allow.
#pragma once

#include <stddef.h>

#include "work.h"

struct graph {
    uint32_t magic;
    struct work **nodes; // each on its own, because their addresses are the handles of callers
    size_t count;
    size_t capacity;
};

struct graph *graph_create(void);
struct graph *graph_copy(const struct graph *graph);
bool graph_is_valid(const struct graph *graph);
void graph_destroy(struct graph *graph);

// Adds a node and returns it, or NULL without memory.
struct work *graph_add(struct graph *graph, struct work work);
// The same with a whole graph as the node: a copy, because `child` stays the caller's.
struct work *graph_add_child(struct graph *graph, const struct graph *child);

// False when the graphs differ in shape.
bool graph_update(struct graph *executable, const struct graph *graph);
void graph_launch(const struct graph *graph, struct stream *stream);

void graphs_in_child(void);
