// Nodes that a program adds to a graph of the stand-in HIP itself.
#include "../engine/graph.h"

#include "hip.h"

// Dependencies only have to make sense: nodes run in the order in which they are added, and what a node
// depends on was added before.
static hipError_t add(NODE_ARGUMENTS, struct work work) {
    struct graph *built = (struct graph *)graph;
    if (!node || !graph_is_valid(built) || (dependencyCount && !dependencies))
        return hipErrorInvalidValue;
    for (size_t at = 0; at < dependencyCount; at++)
        if (!dependencies[at])
            return hipErrorInvalidValue;
    *node = (hipGraphNode_t)graph_add(built, work);
    return *node ? hipSuccess : hipErrorOutOfMemory;
}

hipError_t hipGraphAddKernelNode(NODE_ARGUMENTS, const hipKernelNodeParams *parameters) {
    if (!parameters || !parameters->func)
        return hipErrorInvalidValue;
    return add(node, graph, dependencies, dependencyCount, (struct work){.kind = WORK_KERNEL});
}

hipError_t hipGraphAddMemcpyNode(NODE_ARGUMENTS, const hipMemcpy3DParms *parameters) {
    if (!parameters)
        return hipErrorInvalidValue;
    struct work work = {
        .kind = parameters->kind == hipMemcpyDeviceToDevice ? WORK_DEVICE_COPY : WORK_COPY,
        .bytes = parameters->extent.width * parameters->extent.height * parameters->extent.depth,
    };
    return add(node, graph, dependencies, dependencyCount, work);
}

hipError_t hipGraphAddMemsetNode(NODE_ARGUMENTS, const hipMemsetParams *parameters) {
    if (!parameters || !parameters->dst)
        return hipErrorInvalidValue;
    struct work work = {
        .kind = WORK_DEVICE_COPY,
        .bytes = parameters->width * parameters->elementSize * parameters->height,
    };
    return add(node, graph, dependencies, dependencyCount, work);
}

hipError_t hipGraphAddHostNode(NODE_ARGUMENTS, const hipHostNodeParams *parameters) {
    if (!parameters || !parameters->fn)
        return hipErrorInvalidValue;
    struct work work = {.kind = WORK_HOST, .host = parameters->fn, .arg = parameters->userData};
    return add(node, graph, dependencies, dependencyCount, work);
}

hipError_t hipGraphAddChildGraphNode(NODE_ARGUMENTS, hipGraph_t child) {
    if (!graph_is_valid((struct graph *)child) || child == graph)
        return hipErrorInvalidValue;
    struct work work = {.kind = WORK_GRAPH, .child = graph_copy((struct graph *)child)};
    if (!work.child)
        return hipErrorOutOfMemory;
    hipError_t result = add(node, graph, dependencies, dependencyCount, work);
    if (result != hipSuccess)
        graph_destroy(work.child);
    return result;
}
