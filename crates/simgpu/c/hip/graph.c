// Capture and graphs of the stand-in HIP.
#include "../engine/graph.h"

#include "hip.h"

static struct graph *graph_of(const void *handle) {
    struct graph *graph = (struct graph *)handle;
    return graph_is_valid(graph) ? graph : NULL;
}

hipError_t hipStreamBeginCapture(hipStream_t handle, int mode) {
    (void)mode;
    struct stream *stream = stream_of(handle, false);
    if (!stream)
        return hipErrorInvalidHandle;
    // The legacy default stream cannot be captured.
    if (stream == stream_of(NULL, false))
        return hipErrorStreamCaptureUnsupported;
    if (stream->capture)
        return hipErrorIllegalState;
    struct graph *graph = graph_create();
    stream->capture = graph;
    return graph ? hipSuccess : hipErrorOutOfMemory;
}

hipError_t hipStreamEndCapture(hipStream_t handle, hipGraph_t *graph) {
    struct stream *stream = stream_of(handle, false);
    if (!stream || !graph)
        return hipErrorInvalidHandle;
    struct graph *captured = stream->capture;
    *graph = (hipGraph_t)captured;
    if (!captured)
        return hipErrorIllegalState;
    streams_end_capture(captured);
    return hipSuccess;
}

hipError_t hipGraphCreate(hipGraph_t *graph, unsigned flags) {
    if (!graph || flags)
        return hipErrorInvalidValue;
    *graph = (hipGraph_t)graph_create();
    return *graph ? hipSuccess : hipErrorOutOfMemory;
}

hipError_t hipGraphClone(hipGraph_t *clone, hipGraph_t original) {
    struct graph *graph = graph_of(original);
    if (!graph || !clone)
        return hipErrorInvalidValue;
    *clone = (hipGraph_t)graph_copy(graph);
    return *clone ? hipSuccess : hipErrorOutOfMemory;
}

static hipError_t instantiate(hipGraphExec_t *executable, hipGraph_t handle) {
    struct graph *graph = graph_of(handle);
    if (!graph || !executable)
        return hipErrorInvalidValue;
    *executable = (hipGraphExec_t)graph_copy(graph);
    return *executable ? hipSuccess : hipErrorOutOfMemory;
}

hipError_t hipGraphInstantiate(hipGraphExec_t *executable, hipGraph_t graph, hipGraphNode_t *errorNode,
                               char *log, size_t logBytes) {
    if (errorNode)
        *errorNode = NULL;
    if (log && logBytes)
        *log = '\0';
    return instantiate(executable, graph);
}

hipError_t hipGraphInstantiateWithFlags(hipGraphExec_t *executable, hipGraph_t graph,
                                        unsigned long long flags) {
    (void)flags;
    return instantiate(executable, graph);
}

// Uploading takes no time here, so the stream for it does not matter.
hipError_t hipGraphInstantiateWithParams(hipGraphExec_t *executable, hipGraph_t graph,
                                         hipGraphInstantiateParams *parameters) {
    if (!parameters)
        return hipErrorInvalidValue;
    hipError_t result = instantiate(executable, graph);
    parameters->errNode_out = NULL;
    parameters->result_out = result == hipSuccess ? 0 : 1;
    return result;
}

hipError_t hipGraphLaunch(hipGraphExec_t executable, hipStream_t handle) {
    struct graph *graph = graph_of(executable);
    struct stream *stream = stream_of(handle, false);
    if (!graph || !stream)
        return hipErrorInvalidHandle;
    graph_launch(graph, stream);
    return hipSuccess;
}

hipError_t hipGraphExecUpdate(hipGraphExec_t executable, hipGraph_t handle, hipGraphNode_t *errorNode,
                              int *result) {
    struct graph *graph = graph_of(handle), *updated = graph_of(executable);
    if (!graph || !updated)
        return hipErrorInvalidValue;
    bool fits = graph_update(updated, graph);
    if (errorNode)
        *errorNode = NULL;
    if (result)
        *result = fits ? 0 : 2; // 2: the topology changed
    return fits ? hipSuccess : hipErrorGraphExecUpdateFailure;
}

static hipError_t destroy(const void *handle) {
    struct graph *graph = graph_of(handle);
    if (!graph)
        return hipErrorInvalidValue;
    graph_destroy(graph);
    return hipSuccess;
}

hipError_t hipGraphDestroy(hipGraph_t graph) {
    return destroy(graph);
}

hipError_t hipGraphExecDestroy(hipGraphExec_t executable) {
    return destroy(executable);
}
