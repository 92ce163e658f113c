// Capture and graphs of the stand-in driver.
#include "handle.h"

static struct graph *executable_of(CUgraphExec handle) {
    struct graph *graph = (struct graph *)handle;
    return graph_is_valid(graph) ? graph : NULL;
}

CUresult cuStreamBeginCapture_v2(CUstream handle, int mode) {
    (void)mode;
    struct stream *stream = stream_of_handle(handle, false);
    if (!stream)
        return CUDA_ERROR_INVALID_HANDLE;
    // The legacy default stream cannot be captured.
    if (stream == stream_of(NULL, false))
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    if (stream->capture)
        return CUDA_ERROR_ILLEGAL_STATE;
    struct graph *graph = graph_create();
    stream->capture = graph;
    return graph ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuStreamEndCapture(CUstream handle, CUgraph *graph) {
    struct stream *stream = stream_of_handle(handle, false);
    if (!stream || !graph)
        return CUDA_ERROR_INVALID_HANDLE;
    struct graph *captured = stream->capture;
    *graph = (CUgraph)captured;
    if (!captured)
        return CUDA_ERROR_ILLEGAL_STATE;
    streams_end_capture(captured);
    return CUDA_SUCCESS;
}

CUresult cuStreamIsCapturing(CUstream handle, int *status) {
    struct stream *stream = stream_of_handle(handle, false);
    if (!stream || !status)
        return CUDA_ERROR_INVALID_HANDLE;
    *status = stream->capture != NULL;
    return CUDA_SUCCESS;
}

CUresult cuGraphCreate(CUgraph *graph, unsigned flags) {
    if (!graph || flags)
        return CUDA_ERROR_INVALID_VALUE;
    *graph = (CUgraph)graph_create();
    return *graph ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuGraphClone(CUgraph *clone, CUgraph handle) {
    struct graph *graph = graph_of_handle(handle);
    if (!graph || !clone)
        return CUDA_ERROR_INVALID_VALUE;
    *clone = (CUgraph)graph_copy(graph);
    return *clone ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuGraphInstantiateWithFlags(CUgraphExec *executable, CUgraph handle, uint64_t flags) {
    (void)flags;
    struct graph *graph = graph_of_handle(handle);
    if (!graph || !executable)
        return CUDA_ERROR_INVALID_VALUE;
    *executable = (CUgraphExec)graph_copy(graph);
    return *executable ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuGraphLaunch(CUgraphExec handle, CUstream stream_handle) {
    struct graph *graph = executable_of(handle);
    struct stream *stream = stream_of_handle(stream_handle, false);
    if (!graph || !stream)
        return CUDA_ERROR_INVALID_HANDLE;
    graph_launch(graph, stream);
    return CUDA_SUCCESS;
}

CUresult cuGraphGetNodes(CUgraph handle, CUgraphNode *nodes, size_t *count) {
    struct graph *graph = graph_of_handle(handle);
    if (!graph || !count)
        return CUDA_ERROR_INVALID_VALUE;
    if (nodes) {
        for (size_t node = 0; node < *count; node++)
            nodes[node] = node < graph->count ? (CUgraphNode)graph->nodes[node] : NULL;
        *count = *count < graph->count ? *count : graph->count;
    } else {
        *count = graph->count;
    }
    return CUDA_SUCCESS;
}

CUresult cuGraphExecUpdate_v2(CUgraphExec executable_handle, CUgraph handle,
                              CUgraphExecUpdateResultInfo *info) {
    struct graph *graph = graph_of_handle(handle), *executable = executable_of(executable_handle);
    if (!graph || !executable)
        return CUDA_ERROR_INVALID_VALUE;
    bool updated = graph_update(executable, graph);
    if (info)
        *info = (CUgraphExecUpdateResultInfo){.result = updated ? 0 : 2}; // 2: the topology changed
    return updated ? CUDA_SUCCESS : CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
}

CUresult cuGraphDestroy(CUgraph handle) {
    struct graph *graph = graph_of_handle(handle);
    if (!graph)
        return CUDA_ERROR_INVALID_VALUE;
    graph_destroy(graph);
    return CUDA_SUCCESS;
}

CUresult cuGraphExecDestroy(CUgraphExec handle) {
    struct graph *graph = executable_of(handle);
    if (!graph)
        return CUDA_ERROR_INVALID_VALUE;
    graph_destroy(graph);
    return CUDA_SUCCESS;
}
