// Capture and graphs of the stand-in runtime.
#include <stdbool.h>

#include "state.h"

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, int mode) {
    return RUNTIME_CALL(cuStreamBeginCapture_v2(stream, mode));
}

cudaError_t cudaStreamBeginCapture_ptsz(cudaStream_t stream, int mode) {
    return RUNTIME_CALL(cuStreamBeginCapture_v2_ptsz(stream, mode));
}

cudaError_t cudaStreamBeginCaptureToGraph(CAPTURE_ARGUMENTS) {
    return RUNTIME_CALL(
        cuStreamBeginCaptureToGraph(stream, graph, dependencies, edges, dependencyCount, mode));
}

cudaError_t cudaStreamBeginCaptureToGraph_ptsz(CAPTURE_ARGUMENTS) {
    return RUNTIME_CALL(
        cuStreamBeginCaptureToGraph_ptsz(stream, graph, dependencies, edges, dependencyCount, mode));
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph) {
    return RUNTIME_CALL(cuStreamEndCapture(stream, graph));
}

cudaError_t cudaStreamEndCapture_ptsz(cudaStream_t stream, cudaGraph_t *graph) {
    return RUNTIME_CALL(cuStreamEndCapture_ptsz(stream, graph));
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, int *status) {
    return RUNTIME_CALL(cuStreamIsCapturing(stream, status));
}

cudaError_t cudaGraphCreate(cudaGraph_t *graph, unsigned flags) {
    return RUNTIME_CALL(cuGraphCreate(graph, flags));
}

cudaError_t cudaGraphClone(cudaGraph_t *clone, cudaGraph_t original) {
    return RUNTIME_CALL(cuGraphClone(clone, original));
}

cudaError_t cudaGraphAddKernelNode(NODE_ARGUMENTS, const cudaKernelNodeParams *parameters) {
    CUfunction function;
    CUresult result = parameters ? runtime_resolve(parameters->func, &function) : CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS) {
        CUDA_KERNEL_NODE_PARAMS driver = {
            .func = function,
            .gridDimX = parameters->gridDim.x,
            .gridDimY = parameters->gridDim.y,
            .gridDimZ = parameters->gridDim.z,
            .blockDimX = parameters->blockDim.x,
            .blockDimY = parameters->blockDim.y,
            .blockDimZ = parameters->blockDim.z,
            .sharedMemBytes = parameters->sharedMemBytes,
            .kernelParams = parameters->kernelParams,
            .extra = parameters->extra,
        };
        result = cuGraphAddKernelNode_v2(node, graph, dependencies, dependencyCount, &driver);
    }
    return runtime_leave(result);
}

cudaError_t cudaGraphAddMemcpyNode1D(NODE_ARGUMENTS, void *to, const void *from, size_t bytes,
                                     cudaMemcpyKind kind) {
    bool from_host = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyHostToHost;
    bool to_host = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyHostToHost;
    CUDA_MEMCPY3D driver = {
        .srcMemoryType = from_host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE,
        .srcHost = from_host ? from : NULL,
        .srcDevice = from_host ? 0 : (CUdeviceptr)from,
        .dstMemoryType = to_host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE,
        .dstHost = to_host ? to : NULL,
        .dstDevice = to_host ? 0 : (CUdeviceptr)to,
        .WidthInBytes = bytes,
        .Height = 1,
        .Depth = 1,
    };
    return RUNTIME_CALL(
        cuGraphAddMemcpyNode(node, graph, dependencies, dependencyCount, &driver, runtime_context()));
}

cudaError_t cudaGraphAddMemsetNode(NODE_ARGUMENTS, const cudaMemsetParams *parameters) {
    if (!parameters)
        return runtime_leave(CUDA_ERROR_INVALID_VALUE);
    CUDA_MEMSET_NODE_PARAMS driver = {
        .dst = (CUdeviceptr)parameters->dst,
        .pitch = parameters->pitch,
        .value = parameters->value,
        .elementSize = parameters->elementSize,
        .width = parameters->width,
        .height = parameters->height,
    };
    return RUNTIME_CALL(
        cuGraphAddMemsetNode(node, graph, dependencies, dependencyCount, &driver, runtime_context()));
}

cudaError_t cudaGraphAddHostNode(NODE_ARGUMENTS, const cudaHostNodeParams *parameters) {
    return RUNTIME_CALL(cuGraphAddHostNode(node, graph, dependencies, dependencyCount, parameters));
}

cudaError_t cudaGraphAddChildGraphNode(NODE_ARGUMENTS, cudaGraph_t child) {
    return RUNTIME_CALL(cuGraphAddChildGraphNode(node, graph, dependencies, dependencyCount, child));
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *executable, cudaGraph_t graph, unsigned long long flags) {
    return RUNTIME_CALL(cuGraphInstantiateWithFlags(executable, graph, flags));
}

cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t *executable, cudaGraph_t graph,
                                          unsigned long long flags) {
    return RUNTIME_CALL(cuGraphInstantiateWithFlags(executable, graph, flags));
}

cudaError_t cudaGraphInstantiateWithParams(cudaGraphExec_t *executable, cudaGraph_t graph,
                                           cudaGraphInstantiateParams *parameters) {
    return RUNTIME_CALL(
        cuGraphInstantiateWithParams(executable, graph, (CUDA_GRAPH_INSTANTIATE_PARAMS *)parameters));
}

cudaError_t cudaGraphInstantiateWithParams_ptsz(cudaGraphExec_t *executable, cudaGraph_t graph,
                                                cudaGraphInstantiateParams *parameters) {
    return RUNTIME_CALL(
        cuGraphInstantiateWithParams_ptsz(executable, graph, (CUDA_GRAPH_INSTANTIATE_PARAMS *)parameters));
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream) {
    return RUNTIME_CALL(cuGraphLaunch(executable, stream));
}

cudaError_t cudaGraphLaunch_ptsz(cudaGraphExec_t executable, cudaStream_t stream) {
    return RUNTIME_CALL(cuGraphLaunch_ptsz(executable, stream));
}

cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t *nodes, size_t *count) {
    return RUNTIME_CALL(cuGraphGetNodes(graph, nodes, count));
}

cudaError_t cudaGraphExecUpdate(cudaGraphExec_t executable, cudaGraph_t graph,
                                cudaGraphExecUpdateResultInfo *result) {
    return RUNTIME_CALL(cuGraphExecUpdate_v2(executable, graph, result));
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
    return RUNTIME_CALL(cuGraphDestroy(graph));
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) {
    return RUNTIME_CALL(cuGraphExecDestroy(executable));
}
