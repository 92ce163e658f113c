// Ways to make a graph, and the list of its nodes in the truth.
#pragma once

#include <stdbool.h>

#include "kernels.h"

// What goes into a graph, in this order: `copies` fills, the kernels, host functions, `copies` copies.
struct plan {
    uint64_t kernels, copies, hosts;
};

// Creates what such graphs use: streams, events, memory.
void graph_prepare(const char *mode, const struct plan *plan);
void graph_clean_up(void);
// The stream that captures, and on which graphs are launched.
cudaStream_t graph_stream(void);

// Whether `mode` names a way to make a graph.
bool graph_knows_mode(const char *mode);
cudaGraph_t graph_make(const char *mode, const struct plan *plan);
// Writes the nodes of the graph made first as a member of the truth: those made later are the same.
void graph_tell_nodes(void);
