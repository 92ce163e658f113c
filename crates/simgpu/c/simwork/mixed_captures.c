// mixed: captures, and what becomes of them.
#include "mixed.h"

static cudaGraph_t captured_by_runtime(void) {
    cudaGraph_t graph;
    int capturing;
    SAME(cudaStreamBeginCapture, 0, mixed_stream, 0, mixed_stream, 0);
    RUN(cuLaunchKernel, cudaLaunchKernel, 0, mixed_stream, mixed_stub_function, mixed_stub, mixed_grid,
        mixed_block, NULL, SHARED_BYTES, mixed_stream);
    SAME(cudaMemsetAsync, 0x3001, mixed_stream, mixed_device, mixed_device, 0, 0x3001, mixed_stream);
    SAME(cudaStreamIsCapturing, 0, mixed_stream, capturing, mixed_stream, &capturing);
    SAME(cudaStreamEndCapture, 0, mixed_stream, graph, mixed_stream, &graph);
    return graph;
}

static cudaGraph_t captured_by_driver(void) {
    cudaGraph_t graph;
    SAME(cuStreamBeginCapture_v2, 0, mixed_stream, 0, mixed_stream, 0);
    SAME(cuLaunchKernel, 0, mixed_stream, mixed_function, mixed_function, mixed_grid.x, mixed_grid.y,
         mixed_grid.z, mixed_block.x, mixed_block.y, mixed_block.z, SHARED_BYTES, mixed_stream, NULL, NULL);
    SAME(cuStreamEndCapture, 0, mixed_stream, graph, mixed_stream, &graph);
    return graph;
}

static void runtime_graphs(cudaGraph_t graph) {
    cudaGraphExec_t executable, other;
    cudaGraphInstantiateParams parameters = {.uploadStream = mixed_stream};
    cudaGraphExecUpdateResultInfo update;
    size_t nodes = 0;
    SAME(cudaGraphGetNodes, 0, NULL, nodes, graph, NULL, &nodes);
    PAIR(cudaGraphInstantiate, 0, NULL, executable, graph, &executable, graph, 0);
    SAME(cudaGraphLaunch, 0, mixed_stream, executable, executable, mixed_stream);
    PAIR(cudaGraphExecUpdate, 0, NULL, executable, graph, executable, graph, &update);
    PAIR(cudaGraphInstantiateWithFlags, 0, NULL, other, graph, &other, graph, 0);
    SAME(cudaGraphLaunch_ptsz, 0, mixed_side, other, other, mixed_side);
    SAME(cudaGraphLaunch, 0, NULL, other, other, NULL);
    SAME(cudaGraphExecDestroy, 0, NULL, other, other);
    PAIR(cudaGraphInstantiateWithParams, 0, NULL, other, graph, &other, graph, &parameters);
    SAME(cudaGraphExecDestroy, 0, NULL, other, other);
    PAIR(cudaGraphInstantiateWithParams_ptsz, 0, NULL, other, graph, &other, graph, &parameters);
    SAME(cudaGraphExecDestroy, 0, NULL, other, other);
    cudaGraph_t another_shape = captured_by_driver();
    PAIR(cudaGraphExecUpdate, 0, NULL, executable, another_shape, executable, another_shape,
         &update); // fails
    SAME(cudaGraphExecDestroy, 0, NULL, executable, executable);
    SAME(cudaGraphDestroy, 0, NULL, another_shape, another_shape);
}

static void driver_graphs(CUgraph graph) {
    CUgraphExec executable, other;
    CUgraphNode node;
    CUDA_GRAPH_INSTANTIATE_PARAMS parameters = {.hUploadStream = mixed_stream};
    CUgraphExecUpdateResultInfo update;
    char log[64];
    int result;
    PAIR(cuGraphInstantiateWithFlags, 0, NULL, executable, graph, &executable, graph, 0);
    SAME(cuGraphLaunch, 0, mixed_stream, executable, executable, mixed_stream);
    SAME(cuGraphLaunch_ptsz, 0, mixed_side, executable, executable, mixed_side);
    PAIR(cuGraphExecUpdate, 0, NULL, executable, graph, executable, graph, &node, &result);
    PAIR(cuGraphExecUpdate_v2, 0, NULL, executable, graph, executable, graph, &update);
    PAIR(cuGraphInstantiate, 0, NULL, other, graph, &other, graph, &node, log, sizeof log);
    SAME(cuGraphExecDestroy, 0, NULL, other, other);
    PAIR(cuGraphInstantiate_v2, 0, NULL, other, graph, &other, graph, &node, log, sizeof log);
    SAME(cuGraphExecDestroy, 0, NULL, other, other);
    PAIR(cuGraphInstantiateWithParams, 0, NULL, other, graph, &other, graph, &parameters);
    SAME(cuGraphExecDestroy, 0, NULL, other, other);
    PAIR(cuGraphInstantiateWithParams_ptsz, 0, NULL, other, graph, &other, graph, &parameters);
    SAME(cuGraphExecDestroy, 0, NULL, other, other);
    SAME(cuStreamSynchronize, 0, mixed_stream, 0, mixed_stream);
    SAME(cuStreamSynchronize_ptsz, 0, mixed_side, 0, mixed_side);
    SAME(cuGraphExecDestroy, 0, NULL, executable, executable);
}

// Those with nothing in them end in all ways that there are.
static void other_captures(void) {
    cudaGraph_t graph;
    SAME(cudaStreamBeginCapture_ptsz, 0, mixed_side, 0, mixed_side, 0);
    SAME(cudaStreamEndCapture_ptsz, 0, mixed_side, graph, mixed_side, &graph);
    SAME(cudaStreamBeginCaptureToGraph, 0, mixed_stream, 0, mixed_stream, graph, NULL, NULL, 0, 0);
    SAME(cudaStreamEndCapture, 0, mixed_stream, graph, mixed_stream, &graph);
    SAME(cudaStreamBeginCaptureToGraph_ptsz, 0, mixed_side, 0, mixed_side, graph, NULL, NULL, 0, 0);
    SAME(cudaStreamEndCapture_ptsz, 0, mixed_side, graph, mixed_side, &graph);
    SAME(cuStreamBeginCaptureToGraph, 0, mixed_stream, 0, mixed_stream, graph, NULL, NULL, 0, 0);
    SAME(cuStreamEndCapture, 0, mixed_stream, graph, mixed_stream, &graph);
    SAME(cuStreamBeginCaptureToGraph_ptsz, 0, mixed_side, 0, mixed_side, graph, NULL, NULL, 0, 0);
    SAME(cuStreamEndCapture_ptsz, 0, mixed_side, graph, mixed_side, &graph);
    SAME(cuGraphDestroy, 0, NULL, graph, graph);
    SAME(cuStreamBeginCapture, 0, mixed_stream, 0, mixed_stream);
    SAME(cuStreamEndCapture, 0, mixed_stream, graph, mixed_stream, &graph);
    SAME(cuGraphDestroy, 0, NULL, graph, graph);
    SAME(cuStreamBeginCapture_ptsz, 0, mixed_side, 0, mixed_side);
    SAME(cuStreamEndCapture_ptsz, 0, mixed_side, graph, mixed_side, &graph);
    SAME(cuGraphDestroy, 0, NULL, graph, graph);
    SAME(cuStreamBeginCapture_v2_ptsz, 0, mixed_side, 0, mixed_side, 0);
    SAME(cuStreamEndCapture_ptsz, 0, mixed_side, graph, mixed_side, &graph);
    SAME(cuGraphDestroy, 0, NULL, graph, graph);
}

void mixed_captures(void) {
    cudaGraph_t graph = captured_by_runtime();
    runtime_graphs(graph);
    SAME(cudaGraphDestroy, 0, NULL, graph, graph);
    graph = captured_by_driver();
    driver_graphs(graph);
    SAME(cuGraphDestroy, 0, NULL, graph, graph);
    other_captures();
}
