// mixed: graphs that are built node by node. Tools see what the runtime makes of the driver; what is added is
// in structs that they do not look into, but for the function of a kernel.
#include "mixed.h"

static void do_nothing(void *arg) {
    (void)arg;
}

static void runtime_nodes(void) {
    cudaKernelNodeParams kernel = {.func = (void *)mixed_stub,
                                   .gridDim = mixed_grid,
                                   .blockDim = mixed_block,
                                   .sharedMemBytes = SHARED_BYTES};
    cudaMemsetParams fill = {.dst = mixed_device, .elementSize = 1, .width = 0x3012, .height = 1};
    cudaHostNodeParams call = {.fn = do_nothing};
    cudaGraph_t child, graph, clone;
    cudaGraphNode_t first, node;
    SAME(cudaGraphCreate, 0, NULL, child, &child, 0);
    RUN_PAIR(cuGraphAddKernelNode_v2, cudaGraphAddKernelNode, 0, NULL, mixed_stub_function, child, &first,
             child, NULL, 0, &kernel);
    RUN_PAIR(cuGraphAddMemcpyNode, cudaGraphAddMemcpyNode1D, 0, NULL, 0, child, &node, child, &first, 1,
             mixed_device, mixed_host, 0x3011, cudaMemcpyHostToDevice);
    RUN_PAIR(cuGraphAddMemsetNode, cudaGraphAddMemsetNode, 0, NULL, 0, child, &node, child, &first, 1, &fill);
    RUN_PAIR(cuGraphAddHostNode, cudaGraphAddHostNode, 0, NULL, 0, child, &node, child, &first, 1, &call);
    SAME(cudaGraphCreate, 0, NULL, graph, &graph, 0);
    RUN_PAIR(cuGraphAddChildGraphNode, cudaGraphAddChildGraphNode, 0, NULL, child, graph, &node, graph, NULL,
             0, child);
    PAIR(cudaGraphClone, 0, NULL, clone, graph, &clone, graph);
    SAME(cudaGraphDestroy, 0, NULL, clone, clone);
    SAME(cudaGraphDestroy, 0, NULL, graph, graph);
    SAME(cudaGraphDestroy, 0, NULL, child, child);
}

static CUgraph driver_nodes(void) {
    CUDA_KERNEL_NODE_PARAMS_v1 older = {.func = mixed_stub_function,
                                        .gridDimX = mixed_grid.x,
                                        .gridDimY = mixed_grid.y,
                                        .gridDimZ = mixed_grid.z,
                                        .blockDimX = mixed_block.x,
                                        .blockDimY = mixed_block.y,
                                        .blockDimZ = mixed_block.z};
    CUDA_KERNEL_NODE_PARAMS kernel = {.func = mixed_function,
                                      .gridDimX = mixed_grid.x,
                                      .gridDimY = mixed_grid.y,
                                      .gridDimZ = mixed_grid.z,
                                      .blockDimX = mixed_block.x,
                                      .blockDimY = mixed_block.y,
                                      .blockDimZ = mixed_block.z};
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
    CUgraph graph;
    CUgraphNode first, node;
    SAME(cuGraphCreate, 0, NULL, graph, &graph, 0);
    PAIR(cuGraphAddKernelNode, 0, NULL, mixed_stub_function, graph, &first, graph, NULL, 0, &older);
    PAIR(cuGraphAddKernelNode_v2, 0, NULL, mixed_function, graph, &node, graph, &first, 1, &kernel);
    PAIR(cuGraphAddMemcpyNode, 0, NULL, 0, graph, &node, graph, &first, 1, &copy, NULL);
    PAIR(cuGraphAddMemsetNode, 0, NULL, 0, graph, &node, graph, &first, 1, &fill, NULL);
    PAIR(cuGraphAddHostNode, 0, NULL, 0, graph, &node, graph, &first, 1, &call);
    return graph;
}

static void driver_graphs(CUgraph child) {
    CUgraph graph, clone;
    CUgraphNode node;
    CUgraphExec executable;
    SAME(cuGraphCreate, 0, NULL, graph, &graph, 0);
    PAIR(cuGraphAddChildGraphNode, 0, NULL, child, graph, &node, graph, NULL, 0, child);
    PAIR(cuGraphClone, 0, NULL, clone, graph, &clone, graph);
    PAIR(cuGraphInstantiateWithFlags, 0, NULL, executable, clone, &executable, clone, 0);
    SAME(cuGraphLaunch, 0, mixed_stream, executable, executable, mixed_stream);
    SAME(cuStreamSynchronize, 0, mixed_stream, 0, mixed_stream);
    SAME(cuGraphExecDestroy, 0, NULL, executable, executable);
    SAME(cuGraphDestroy, 0, NULL, clone, clone);
    SAME(cuGraphDestroy, 0, NULL, graph, graph);
    SAME(cuGraphDestroy, 0, NULL, child, child);
}

void mixed_graphs(void) {
    runtime_nodes();
    driver_graphs(driver_nodes());
}
