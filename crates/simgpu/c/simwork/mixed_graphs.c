// mixed: graphs, captured and built.
#include "mixed.h"

static const dim3 grid = {7, 5, 3}, block = {32, 4, 2};

static void do_nothing(void *arg) {
    (void)arg;
}

static void captured_graphs(void) {
    cudaGraph_t graph, second;
    cudaGraphExec_t executable, other;
    cudaGraphExecUpdateResultInfo update;
    size_t nodes = 0;
    int capturing;
    CUfunction function = kernels_function(KERNEL_SOFTMAX);
    SAME(cudaStreamBeginCapture, 0, mixed_stream, 0, mixed_stream, 0);
    RUN(cuLaunchKernel, cudaLaunchKernel, 0, mixed_stream, 0, kernels_stub(KERNEL_MATMUL), grid, block, NULL,
        0, mixed_stream);
    SAME(cudaMemsetAsync, 0x3001, mixed_stream, mixed_device, mixed_device, 0, 0x3001, mixed_stream);
    SAME(cudaStreamIsCapturing, 0, mixed_stream, capturing, mixed_stream, &capturing);
    SAME(cudaStreamEndCapture, 0, mixed_stream, graph, mixed_stream, &graph);
    SAME(cudaGraphGetNodes, 0, NULL, nodes, graph, NULL, &nodes);
    SAME(cudaGraphInstantiate, 0, NULL, executable, &executable, graph, 0);
    SAME(cudaGraphInstantiateWithFlags, 0, NULL, other, &other, graph, 0);
    SAME(cudaGraphLaunch, 0, mixed_stream, executable, executable, mixed_stream);
    SAME(cudaGraphLaunch, 0, NULL, other, other, NULL);
    SAME(cudaGraphExecUpdate, 0, NULL, executable, executable, graph, &update);
    SAME(cudaGraphExecDestroy, 0, NULL, other, other);
    SAME(cuStreamBeginCapture_v2, 0, mixed_stream, 0, mixed_stream, 0);
    SAME(cuLaunchKernel, 0, mixed_stream, function, function, 1, 1, 1, 64, 1, 1, 0, mixed_stream, NULL, NULL);
    SAME(cuStreamEndCapture, 0, mixed_stream, second, mixed_stream, &second);
    SAME(cudaGraphExecUpdate, 0, NULL, executable, executable, second, &update); // fails: another shape
    SAME(cuGraphInstantiateWithFlags, 0, NULL, other, &other, second, 0);
    SAME(cuGraphLaunch, 0, mixed_stream, other, other, mixed_stream);
    SAME(cuGraphExecUpdate_v2, 0, NULL, other, other, second, &update);
    SAME(cuGraphExecDestroy, 0, NULL, other, other);
    SAME(cuGraphDestroy, 0, NULL, second, second);
    SAME(cudaGraphExecDestroy, 0, NULL, executable, executable);
    SAME(cudaGraphDestroy, 0, NULL, graph, graph);
}

static void runtime_nodes(void) {
    cudaKernelNodeParams kernel = {
        .func = (void *)kernels_stub(KERNEL_MATMUL), .gridDim = grid, .blockDim = block};
    cudaMemsetParams fill = {.dst = mixed_device, .elementSize = 1, .width = 0x3012, .height = 1};
    cudaHostNodeParams call = {.fn = do_nothing};
    cudaGraph_t child, graph, clone;
    cudaGraphNode_t first, node;
    SAME(cudaGraphCreate, 0, NULL, child, &child, 0);
    SAME(cudaGraphAddKernelNode, 0, NULL, first, &first, child, NULL, 0, &kernel);
    SAME(cudaGraphAddMemcpyNode1D, 0x3011, NULL, node, &node, child, &first, 1, mixed_device, mixed_host,
         0x3011, cudaMemcpyHostToDevice);
    SAME(cudaGraphAddMemsetNode, 0x3012, NULL, node, &node, child, &first, 1, &fill);
    SAME(cudaGraphAddHostNode, 0, NULL, node, &node, child, &first, 1, &call);
    SAME(cudaGraphCreate, 0, NULL, graph, &graph, 0);
    SAME(cudaGraphAddChildGraphNode, 0, NULL, node, &node, graph, NULL, 0, child);
    SAME(cudaGraphClone, 0, NULL, clone, &clone, graph);
    SAME(cudaGraphDestroy, 0, NULL, clone, clone);
    SAME(cudaGraphDestroy, 0, NULL, graph, graph);
    SAME(cudaGraphDestroy, 0, NULL, child, child);
}

static void driver_nodes(void) {
    CUDA_KERNEL_NODE_PARAMS kernel = {.func = kernels_function(KERNEL_ADAMW),
                                      .gridDimX = 7,
                                      .gridDimY = 5,
                                      .gridDimZ = 3,
                                      .blockDimX = 32,
                                      .blockDimY = 4,
                                      .blockDimZ = 2};
    CUDA_MEMCPY3D copy = {.srcMemoryType = CU_MEMORYTYPE_HOST,
                          .srcHost = mixed_host,
                          .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                          .dstDevice = (CUdeviceptr)mixed_device,
                          .WidthInBytes = 0x3021,
                          .Height = 1,
                          .Depth = 1};
    CUDA_MEMSET_NODE_PARAMS fill = {
        .dst = (CUdeviceptr)mixed_device, .elementSize = 4, .width = 0x302, .height = 1};
    CUDA_HOST_NODE_PARAMS call = {.fn = do_nothing};
    CUgraph child, graph, clone;
    CUgraphNode first, node;
    CUgraphExec executable;
    SAME(cuGraphCreate, 0, NULL, child, &child, 0);
    SAME(cuGraphAddKernelNode_v2, 0, NULL, first, &first, child, NULL, 0, &kernel);
    SAME(cuGraphAddMemcpyNode, 0x3021, NULL, node, &node, child, &first, 1, &copy, NULL);
    SAME(cuGraphAddMemsetNode, 0x302 * 4, NULL, node, &node, child, &first, 1, &fill, NULL);
    SAME(cuGraphAddHostNode, 0, NULL, node, &node, child, &first, 1, &call);
    SAME(cuGraphCreate, 0, NULL, graph, &graph, 0);
    SAME(cuGraphAddChildGraphNode, 0, NULL, node, &node, graph, NULL, 0, child);
    SAME(cuGraphClone, 0, NULL, clone, &clone, graph);
    SAME(cuGraphInstantiateWithFlags, 0, NULL, executable, &executable, clone, 0);
    SAME(cuGraphLaunch, 0, mixed_stream, executable, executable, mixed_stream);
    SAME(cuStreamSynchronize, 0, mixed_stream, 0, mixed_stream);
    SAME(cuGraphExecDestroy, 0, NULL, executable, executable);
    SAME(cuGraphDestroy, 0, NULL, clone, clone);
    SAME(cuGraphDestroy, 0, NULL, graph, graph);
    SAME(cuGraphDestroy, 0, NULL, child, child);
}

void mixed_graphs(void) {
    captured_graphs();
    runtime_nodes();
    driver_nodes();
}
