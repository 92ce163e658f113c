// Ways to make a graph.
#include "graph_build.h"

#include <stdio.h>
#include <string.h>

#include "truth.h"

#define BYTES 4096

static cudaStream_t stream, side_stream;
static cudaEvent_t fork_event, join_event;
static void *buffer;
static char host[BYTES];

// ---- the list of nodes

// `made`: nodes of the graph that is launched; `inner`: of the graph inside of it.
static struct list {
    FILE *file;
    char *text;
    size_t length;
    bool is_complete;
} made, inner;

static struct list *noted = &made;

static void note(const char *kind, const char *name) {
    if (noted->is_complete)
        return;
    if (!noted->file)
        noted->file = open_memstream(&noted->text, &noted->length);
    fprintf(noted->file, "%s{\"kind\":\"%s\",\"name\":\"%s\"}", ftell(noted->file) ? "," : "", kind, name);
}

static void complete(struct list *list) {
    if (list->file)
        fflush(list->file);
    list->is_complete = true;
}

void graph_tell_nodes(void) {
    fprintf(truth_more(), ",\"graph_nodes\":[%s]", made.file ? made.text : "");
    if (inner.file)
        fprintf(truth_more(), ",\"child_nodes\":[%s]", inner.text);
}

// ---- what a graph is made of

cudaStream_t graph_stream(void) {
    return stream;
}

void graph_prepare(const char *mode, const struct plan *plan) {
    CALL(cudaStreamCreate, &stream);
    if (strcmp(mode, "two-streams") == 0) {
        CALL(cudaStreamCreate, &side_stream);
        CALL(cudaEventCreate, &fork_event);
        CALL(cudaEventCreate, &join_event);
    }
    if (plan->copies)
        CALL(cudaMalloc, &buffer, BYTES);
}

void graph_clean_up(void) {
    if (buffer)
        CALL(cudaFree, buffer);
    if (side_stream) {
        CALL(cudaEventDestroy, join_event);
        CALL(cudaEventDestroy, fork_event);
        CALL(cudaStreamDestroy, side_stream);
    }
    CALL(cudaStreamDestroy, stream);
}

static void do_nothing(void *arg) {
    (void)arg;
}

// ---- by capture

// With a second stream every other kernel goes there, and it joins before the rest.
static void queue(const struct plan *plan) {
    for (uint64_t at = 0; at < plan->copies; at++) {
        CALL(cudaMemsetAsync, buffer, 0, BYTES, stream);
        note("set", "");
    }
    if (side_stream) {
        CALL(cudaEventRecord, fork_event, stream);
        CALL(cudaStreamWaitEvent, side_stream, fork_event, 0);
    }
    for (uint64_t at = 0; at < plan->kernels; at++) {
        enum kernel kernel = (enum kernel)(at % KERNEL_COUNT);
        kernels_first_use(VIA_RUNTIME, kernel);
        kernels_launch(VIA_RUNTIME, kernel, side_stream && at % 2 ? side_stream : stream);
        note("kernel", kernels_name(kernel));
    }
    kernels_count(VIA_RUNTIME, plan->kernels);
    if (side_stream) {
        CALL(cudaEventRecord, join_event, side_stream);
        CALL(cudaStreamWaitEvent, stream, join_event, 0);
    }
    for (uint64_t at = 0; at < plan->hosts; at++) {
        CALL(cudaLaunchHostFunc, stream, do_nothing, NULL);
        note("host", "");
    }
    for (uint64_t at = 0; at < plan->copies; at++) {
        CALL(cudaMemcpyAsync, host, buffer, BYTES, cudaMemcpyDeviceToHost, stream);
        note("copy", "");
    }
}

// Not inlined, and not static: a name for the stacks of the demo.
__attribute__((noinline)) cudaGraph_t graph_capture(const struct plan *plan) {
    cudaGraph_t graph;
    CALL(cudaStreamBeginCapture, stream, 0);
    queue(plan);
    CALL(cudaStreamEndCapture, stream, &graph);
    return graph;
}

// ---- node by node

static void add_kernel(cudaGraph_t graph, enum kernel kernel, cudaGraphNode_t *last) {
    cudaKernelNodeParams parameters = {
        .func = (void *)kernels_stub(kernel), .gridDim = {128, 2, 1}, .blockDim = {256, 1, 1}};
    cudaGraphNode_t before = *last;
    kernels_first_use(VIA_RUNTIME, kernel);
    CALL(cudaGraphAddKernelNode, last, graph, &before, before != NULL, &parameters);
    note("kernel", kernels_name(kernel));
}

// Every node depends on the one before.
static cudaGraph_t build(const struct plan *plan) {
    const cudaMemsetParams fill = {.dst = buffer, .elementSize = 1, .width = BYTES, .height = 1};
    const cudaHostNodeParams call = {.fn = do_nothing};
    cudaGraphNode_t last = NULL, before;
    cudaGraph_t graph;
    CALL(cudaGraphCreate, &graph, 0);
    for (uint64_t at = 0; at < plan->copies; at++) {
        before = last;
        CALL(cudaGraphAddMemsetNode, &last, graph, &before, before != NULL, &fill);
        note("set", "");
    }
    for (uint64_t at = 0; at < plan->kernels; at++)
        add_kernel(graph, (enum kernel)(at % KERNEL_COUNT), &last);
    for (uint64_t at = 0; at < plan->hosts; at++) {
        before = last;
        CALL(cudaGraphAddHostNode, &last, graph, &before, before != NULL, &call);
        note("host", "");
    }
    for (uint64_t at = 0; at < plan->copies; at++) {
        before = last;
        CALL(cudaGraphAddMemcpyNode1D, &last, graph, &before, before != NULL, host, buffer, BYTES,
             cudaMemcpyDeviceToHost);
        note("copy", "");
    }
    return graph;
}

// A captured graph between two kernels.
static cudaGraph_t build_around_child(const struct plan *plan) {
    cudaGraphNode_t last = NULL, before;
    cudaGraph_t graph;
    noted = &inner;
    cudaGraph_t child = graph_capture(plan);
    complete(&inner);
    noted = &made;
    CALL(cudaGraphCreate, &graph, 0);
    add_kernel(graph, KERNEL_SOFTMAX, &last);
    before = last;
    CALL(cudaGraphAddChildGraphNode, &last, graph, &before, 1, child);
    note("graph", "");
    add_kernel(graph, KERNEL_ADAMW, &last);
    CALL(cudaGraphDestroy, child);
    return graph;
}

// ---- by name

bool graph_knows_mode(const char *mode) {
    static const char *const modes[] = {"capture", "explicit", "child", "two-streams", "update"};
    for (size_t at = 0; at < sizeof modes / sizeof *modes; at++)
        if (strcmp(modes[at], mode) == 0)
            return true;
    return false;
}

cudaGraph_t graph_make(const char *mode, const struct plan *plan) {
    cudaGraph_t graph;
    if (strcmp(mode, "explicit") == 0)
        graph = build(plan);
    else if (strcmp(mode, "child") == 0)
        graph = build_around_child(plan);
    else
        graph = graph_capture(plan);
    complete(&made);
    return graph;
}
