// Graphs of the stand-in driver.
#include "handle.h"

static struct graph *executable_of(CUgraphExec handle) {
    struct graph *graph = (struct graph *)handle;
    return graph_is_valid(graph) ? graph : NULL;
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

static CUresult instantiate(CUgraphExec *executable, CUgraph handle) {
    struct graph *graph = graph_of_handle(handle);
    if (!graph || !executable)
        return CUDA_ERROR_INVALID_VALUE;
    *executable = (CUgraphExec)graph_copy(graph);
    return *executable ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult instantiate_with_log(INSTANTIATE_ARGUMENTS) {
    if (errorNode)
        *errorNode = NULL;
    if (log && logBytes)
        *log = '\0';
    return instantiate(executable, graph);
}

CUresult cuGraphInstantiate(INSTANTIATE_ARGUMENTS) {
    return instantiate_with_log(executable, graph, errorNode, log, logBytes);
}

CUresult cuGraphInstantiate_v2(INSTANTIATE_ARGUMENTS) {
    return instantiate_with_log(executable, graph, errorNode, log, logBytes);
}

CUresult cuGraphInstantiateWithFlags(CUgraphExec *executable, CUgraph graph, uint64_t flags) {
    (void)flags;
    return instantiate(executable, graph);
}

// Uploading takes no time here, so the stream for it does not matter.
static CUresult instantiate_with_params(CUgraphExec *executable, CUgraph graph,
                                        CUDA_GRAPH_INSTANTIATE_PARAMS *parameters) {
    if (!parameters)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = instantiate(executable, graph);
    parameters->hErrNode_out = NULL;
    parameters->result_out = result == CUDA_SUCCESS ? 0 : 1;
    return result;
}

CUresult cuGraphInstantiateWithParams(CUgraphExec *executable, CUgraph graph,
                                      CUDA_GRAPH_INSTANTIATE_PARAMS *parameters) {
    return instantiate_with_params(executable, graph, parameters);
}

CUresult cuGraphInstantiateWithParams_ptsz(CUgraphExec *executable, CUgraph graph,
                                           CUDA_GRAPH_INSTANTIATE_PARAMS *parameters) {
    return instantiate_with_params(executable, graph, parameters);
}

static CUresult launch(CUgraphExec handle, struct stream *stream) {
    struct graph *graph = executable_of(handle);
    if (!graph || !stream)
        return CUDA_ERROR_INVALID_HANDLE;
    graph_launch(graph, stream);
    return CUDA_SUCCESS;
}

CUresult cuGraphLaunch(CUgraphExec executable, CUstream stream) {
    return launch(executable, stream_of_handle(stream, false));
}

CUresult cuGraphLaunch_ptsz(CUgraphExec executable, CUstream stream) {
    return launch(executable, stream_of_handle(stream, true));
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

static CUresult update(CUgraphExec executable_handle, CUgraph handle, int *result) {
    struct graph *graph = graph_of_handle(handle), *executable = executable_of(executable_handle);
    if (!graph || !executable)
        return CUDA_ERROR_INVALID_VALUE;
    bool updated = graph_update(executable, graph);
    *result = updated ? 0 : 2; // 2: the topology changed
    return updated ? CUDA_SUCCESS : CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
}

CUresult cuGraphExecUpdate(CUgraphExec executable, CUgraph graph, CUgraphNode *errorNode, int *result) {
    int unwanted;
    if (errorNode)
        *errorNode = NULL;
    return update(executable, graph, result ? result : &unwanted);
}

CUresult cuGraphExecUpdate_v2(CUgraphExec executable, CUgraph graph, CUgraphExecUpdateResultInfo *info) {
    CUgraphExecUpdateResultInfo unwanted;
    if (!info)
        info = &unwanted;
    *info = (CUgraphExecUpdateResultInfo){0};
    return update(executable, graph, &info->result);
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
