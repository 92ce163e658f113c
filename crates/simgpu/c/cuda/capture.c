// Capture of the stand-in driver: what a stream is given to do becomes a graph.
#include "handle.h"

static CUresult begin(struct stream *stream, struct graph *graph) {
    if (!stream)
        return CUDA_ERROR_INVALID_HANDLE;
    // The legacy default stream cannot be captured.
    if (stream == stream_of(NULL, false))
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    if (stream->capture)
        return CUDA_ERROR_ILLEGAL_STATE;
    if (!graph)
        graph = graph_create();
    stream->capture = graph;
    return graph ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuStreamBeginCapture(CUstream stream) {
    return begin(stream_of_handle(stream, false), NULL);
}

CUresult cuStreamBeginCapture_ptsz(CUstream stream) {
    return begin(stream_of_handle(stream, true), NULL);
}

CUresult cuStreamBeginCapture_v2(CUstream stream, int mode) {
    (void)mode;
    return begin(stream_of_handle(stream, false), NULL);
}

CUresult cuStreamBeginCapture_v2_ptsz(CUstream stream, int mode) {
    (void)mode;
    return begin(stream_of_handle(stream, true), NULL);
}

// Nodes run in the order in which they are added, so what the captured ones depend on is met.
static CUresult begin_in(CUgraph handle, struct stream *stream) {
    struct graph *graph = graph_of_handle(handle);
    return graph ? begin(stream, graph) : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuStreamBeginCaptureToGraph(CAPTURE_ARGUMENTS) {
    (void)dependencies, (void)edges, (void)dependencyCount, (void)mode;
    return begin_in(graph, stream_of_handle(stream, false));
}

CUresult cuStreamBeginCaptureToGraph_ptsz(CAPTURE_ARGUMENTS) {
    (void)dependencies, (void)edges, (void)dependencyCount, (void)mode;
    return begin_in(graph, stream_of_handle(stream, true));
}

static CUresult end(struct stream *stream, CUgraph *graph) {
    if (!stream || !graph)
        return CUDA_ERROR_INVALID_HANDLE;
    struct graph *captured = stream->capture;
    *graph = (CUgraph)captured;
    if (!captured)
        return CUDA_ERROR_ILLEGAL_STATE;
    streams_end_capture(captured);
    return CUDA_SUCCESS;
}

CUresult cuStreamEndCapture(CUstream stream, CUgraph *graph) {
    return end(stream_of_handle(stream, false), graph);
}

CUresult cuStreamEndCapture_ptsz(CUstream stream, CUgraph *graph) {
    return end(stream_of_handle(stream, true), graph);
}

CUresult cuStreamIsCapturing(CUstream handle, int *status) {
    struct stream *stream = stream_of_handle(handle, false);
    if (!stream || !status)
        return CUDA_ERROR_INVALID_HANDLE;
    *status = stream->capture != NULL;
    return CUDA_SUCCESS;
}
