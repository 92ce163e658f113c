// Nodes that a program adds to a graph itself.
#include "handle.h"
#include "module.h"

// Dependencies only have to make sense: nodes run in the order in which they are added, and what a node
// depends on was added before.
static CUresult add(NODE_ARGUMENTS, struct work work) {
    struct graph *built = graph_of_handle(graph);
    if (!node || !built || (dependencyCount && !dependencies))
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t at = 0; at < dependencyCount; at++)
        if (!dependencies[at])
            return CUDA_ERROR_INVALID_VALUE;
    *node = (CUgraphNode)graph_add(built, work);
    return *node ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult add_kernel(NODE_ARGUMENTS, CUfunction function) {
    if (!function_is_valid(function))
        return CUDA_ERROR_INVALID_HANDLE;
    return add(node, graph, dependencies, dependencyCount, (struct work){.kind = WORK_KERNEL});
}

CUresult cuGraphAddKernelNode(NODE_ARGUMENTS, const CUDA_KERNEL_NODE_PARAMS_v1 *parameters) {
    if (!parameters)
        return CUDA_ERROR_INVALID_VALUE;
    return add_kernel(node, graph, dependencies, dependencyCount, parameters->func);
}

CUresult cuGraphAddKernelNode_v2(NODE_ARGUMENTS, const CUDA_KERNEL_NODE_PARAMS *parameters) {
    if (!parameters)
        return CUDA_ERROR_INVALID_VALUE;
    // A kernel that belongs to a library may stand in for the function.
    CUfunction function = parameters->func ? parameters->func : (CUfunction)parameters->kern;
    return add_kernel(node, graph, dependencies, dependencyCount, function);
}

CUresult cuGraphAddMemcpyNode(NODE_ARGUMENTS, const CUDA_MEMCPY3D *parameters, CUcontext context) {
    (void)context;
    if (!parameters)
        return CUDA_ERROR_INVALID_VALUE;
    bool crosses =
        parameters->srcMemoryType == CU_MEMORYTYPE_HOST || parameters->dstMemoryType == CU_MEMORYTYPE_HOST;
    struct work work = {
        .kind = crosses ? WORK_COPY : WORK_DEVICE_COPY,
        .bytes = parameters->WidthInBytes * parameters->Height * parameters->Depth,
    };
    return add(node, graph, dependencies, dependencyCount, work);
}

CUresult cuGraphAddMemsetNode(NODE_ARGUMENTS, const CUDA_MEMSET_NODE_PARAMS *parameters, CUcontext context) {
    (void)context;
    if (!parameters || !parameters->dst)
        return CUDA_ERROR_INVALID_VALUE;
    struct work work = {
        .kind = WORK_DEVICE_COPY,
        .bytes = parameters->width * parameters->elementSize * parameters->height,
    };
    return add(node, graph, dependencies, dependencyCount, work);
}

CUresult cuGraphAddHostNode(NODE_ARGUMENTS, const CUDA_HOST_NODE_PARAMS *parameters) {
    if (!parameters || !parameters->fn)
        return CUDA_ERROR_INVALID_VALUE;
    struct work work = {.kind = WORK_HOST, .host = parameters->fn, .arg = parameters->userData};
    return add(node, graph, dependencies, dependencyCount, work);
}

CUresult cuGraphAddChildGraphNode(NODE_ARGUMENTS, CUgraph child) {
    struct graph *inner = graph_of_handle(child);
    if (!inner || child == graph)
        return CUDA_ERROR_INVALID_VALUE;
    struct work work = {.kind = WORK_GRAPH, .child = graph_copy(inner)};
    if (!work.child)
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult result = add(node, graph, dependencies, dependencyCount, work);
    if (result != CUDA_SUCCESS)
        graph_destroy(work.child);
    return result;
}
