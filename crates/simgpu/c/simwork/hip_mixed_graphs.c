// hip-mixed: graphs, captured and built.
#include "hip_mixed.h"

static void do_nothing(void *arg) {
    (void)arg;
}

// What is added is in structs that tools do not look into.
static hipGraph_t built(void) {
    const hipKernelNodeParams kernel = {
        .func = (void *)hip_stub, .gridDim = hip_grid, .blockDim = hip_block, .sharedMemBytes = SHARED_BYTES};
    const hipMemcpy3DParms copy = {.srcPtr = {.ptr = hip_host},
                                   .dstPtr = {.ptr = hip_device},
                                   .extent = {0x5042, 1, 1},
                                   .kind = hipMemcpyHostToDevice};
    const hipMemsetParams fill = {.dst = hip_device, .elementSize = 1, .width = 0x5043, .height = 1};
    const hipHostNodeParams call = {.fn = do_nothing};
    hipGraph_t graph;
    hipGraphNode_t first, node;
    SAME(hipGraphCreate, 0, NULL, graph, &graph, 0);
    PAIR(hipGraphAddKernelNode, 0, NULL, 0, graph, &first, graph, NULL, 0, &kernel);
    PAIR(hipGraphAddMemcpyNode, 0, NULL, 0, graph, &node, graph, &first, 1, &copy);
    PAIR(hipGraphAddMemsetNode, 0, NULL, 0, graph, &node, graph, &first, 1, &fill);
    PAIR(hipGraphAddHostNode, 0, NULL, 0, graph, &node, graph, &first, 1, &call);
    return graph;
}

static hipGraph_t captured(void) {
    hipGraph_t graph;
    SAME(hipStreamBeginCapture, 0, hip_stream, 0, hip_stream, 0);
    SAME(hipLaunchKernel, 0, hip_stream, hip_stub, hip_stub, hip_grid, hip_block, NULL, SHARED_BYTES,
         hip_stream);
    SAME(hipMemsetAsync, 0x5041, hip_stream, hip_device, hip_device, 0, 0x5041, hip_stream);
    SAME(hipStreamEndCapture, 0, hip_stream, graph, hip_stream, &graph);
    return graph;
}

void hip_graphs(void) {
    hipGraph_t graph = captured(), child = built(), clone;
    hipGraphExec_t executable, other;
    hipGraphInstantiateParams parameters = {.uploadStream = hip_stream};
    hipGraphNode_t node;
    char log[64];
    int result;
    PAIR(hipGraphClone, 0, NULL, clone, graph, &clone, graph);
    PAIR(hipGraphAddChildGraphNode, 0, NULL, child, clone, &node, clone, NULL, 0, child);
    PAIR(hipGraphInstantiate, 0, NULL, executable, graph, &executable, graph, &node, log, sizeof log);
    SAME(hipGraphLaunch, 0, hip_stream, executable, executable, hip_stream);
    PAIR(hipGraphExecUpdate, 0, NULL, executable, graph, executable, graph, &node, &result);
    PAIR(hipGraphExecUpdate, 0, NULL, executable, clone, executable, clone, &node,
         &result); // fails: another shape
    PAIR(hipGraphInstantiateWithFlags, 0, NULL, other, graph, &other, graph, 0);
    SAME(hipGraphExecDestroy, 0, NULL, other, other);
    PAIR(hipGraphInstantiateWithParams, 0, NULL, other, clone, &other, clone, &parameters);
    SAME(hipGraphLaunch, 0, hip_side, other, other, hip_side);
    SAME(hipDeviceSynchronize, 0, NULL, 0);
    SAME(hipGraphExecDestroy, 0, NULL, other, other);
    SAME(hipGraphExecDestroy, 0, NULL, executable, executable);
    SAME(hipGraphDestroy, 0, NULL, clone, clone);
    SAME(hipGraphDestroy, 0, NULL, child, child);
    SAME(hipGraphDestroy, 0, NULL, graph, graph);
}
