// The part of the CUDA driver interface that the stand-in offers, with the real names and the real ABI, and
// its own few hooks (simgpu_*). Everything declared here is exported from libcuda.so.1.
#pragma once

#include "types.h"

#pragma GCC visibility push(default)

// Device and context
CUresult cuInit(unsigned flags);
CUresult cuDriverGetVersion(int *version);
CUresult cuDeviceGet(CUdevice *device, int ordinal);
CUresult cuDeviceGetCount(int *count);
CUresult cuDeviceGetName(char *name, int length, CUdevice device);
CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device);
CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device);
CUresult cuCtxCreate_v2(CUcontext *context, unsigned flags, CUdevice device);
CUresult cuCtxCreate_v3(CUcontext *context, void *affinities, int affinityCount, unsigned flags,
                        CUdevice device);
CUresult cuCtxCreate_v4(CUcontext *context, void *parameters, unsigned flags, CUdevice device);
CUresult cuCtxDestroy_v2(CUcontext context);
CUresult cuCtxSetCurrent(CUcontext context);
CUresult cuCtxGetCurrent(CUcontext *context);
CUresult cuCtxGetDevice(CUdevice *device);
CUresult cuCtxSynchronize(void);
CUresult cuCtxSynchronize_v2(CUcontext context);
CUresult cuGetErrorName(CUresult error, const char **name);
CUresult cuGetErrorString(CUresult error, const char **text);
CUresult cuGetProcAddress_v2(const char *symbol, void **function, int version, uint64_t flags, int *status);

// Streams and events
CUresult cuStreamCreate(CUstream *stream, unsigned flags);
CUresult cuStreamCreateWithPriority(CUstream *stream, unsigned flags, int priority);
CUresult cuStreamDestroy_v2(CUstream stream);
CUresult cuStreamSynchronize(CUstream stream);
CUresult cuStreamSynchronize_ptsz(CUstream stream);
CUresult cuStreamQuery(CUstream stream);
CUresult cuStreamQuery_ptsz(CUstream stream);
CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned flags);
CUresult cuStreamWaitEvent_ptsz(CUstream stream, CUevent event, unsigned flags);
CUresult cuEventCreate(CUevent *event, unsigned flags);
CUresult cuEventRecord(CUevent event, CUstream stream);
CUresult cuEventRecord_ptsz(CUevent event, CUstream stream);
CUresult cuEventRecordWithFlags(CUevent event, CUstream stream, unsigned flags);
CUresult cuEventRecordWithFlags_ptsz(CUevent event, CUstream stream, unsigned flags);
CUresult cuEventSynchronize(CUevent event);
CUresult cuEventQuery(CUevent event);
CUresult cuEventElapsedTime(float *milliseconds, CUevent start, CUevent end);
CUresult cuEventDestroy_v2(CUevent event);

// Launches
#define LAUNCH_ARGUMENTS                                                                                     \
    CUfunction function, unsigned gridX, unsigned gridY, unsigned gridZ, unsigned blockX, unsigned blockY,   \
        unsigned blockZ, unsigned sharedBytes, CUstream stream, void **parameters
CUresult cuLaunchKernel(LAUNCH_ARGUMENTS, void **extra);
CUresult cuLaunchKernel_ptsz(LAUNCH_ARGUMENTS, void **extra);
CUresult cuLaunchCooperativeKernel(LAUNCH_ARGUMENTS);
CUresult cuLaunchCooperativeKernel_ptsz(LAUNCH_ARGUMENTS);
CUresult cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction function, void **parameters, void **extra);
CUresult cuLaunchKernelEx_ptsz(const CUlaunchConfig *config, CUfunction function, void **parameters,
                               void **extra);
CUresult cuLaunchHostFunc(CUstream stream, CUhostFn function, void *arg);
CUresult cuLaunchHostFunc_ptsz(CUstream stream, CUhostFn function, void *arg);

// Memory
CUresult cuMemAlloc_v2(CUdeviceptr *pointer, size_t bytes);
CUresult cuMemFree_v2(CUdeviceptr pointer);
CUresult cuMemAllocAsync(CUdeviceptr *pointer, size_t bytes, CUstream stream);
CUresult cuMemAllocAsync_ptsz(CUdeviceptr *pointer, size_t bytes, CUstream stream);
CUresult cuMemFreeAsync(CUdeviceptr pointer, CUstream stream);
CUresult cuMemFreeAsync_ptsz(CUdeviceptr pointer, CUstream stream);
CUresult cuMemAllocFromPoolAsync(CUdeviceptr *pointer, size_t bytes, CUmemoryPool pool, CUstream stream);
CUresult cuMemAllocFromPoolAsync_ptsz(CUdeviceptr *pointer, size_t bytes, CUmemoryPool pool, CUstream stream);
CUresult cuDeviceGetDefaultMemPool(CUmemoryPool *pool, CUdevice device);
CUresult cuMemPoolCreate(CUmemoryPool *pool, const void *properties);
CUresult cuMemPoolDestroy(CUmemoryPool pool);
CUresult cuMemAllocManaged(CUdeviceptr *pointer, size_t bytes, unsigned flags);
CUresult cuMemAllocPitch_v2(CUdeviceptr *pointer, size_t *pitch, size_t width, size_t height,
                            unsigned elementBytes);
CUresult cuMemAllocHost_v2(void **pointer, size_t bytes);
CUresult cuMemHostAlloc(void **pointer, size_t bytes, unsigned flags);
CUresult cuMemFreeHost(void *pointer);
CUresult cuMemHostRegister_v2(void *pointer, size_t bytes, unsigned flags);
CUresult cuMemHostUnregister(void *pointer);
CUresult cuArrayCreate_v2(CUarray *array, const CUDA_ARRAY_DESCRIPTOR *shape);
CUresult cuArray3DCreate_v2(CUarray *array, const CUDA_ARRAY3D_DESCRIPTOR *shape);
CUresult cuArrayDestroy(CUarray array);
CUresult cuMemGetInfo_v2(size_t *free, size_t *total);
CUresult cuMemAddressReserve(CUdeviceptr *pointer, size_t bytes, size_t alignment, CUdeviceptr hint,
                             uint64_t flags);
CUresult cuMemAddressFree(CUdeviceptr pointer, size_t bytes);
CUresult cuMemCreate(CUmemGenericAllocationHandle *handle, size_t bytes, const void *properties,
                     uint64_t flags);
CUresult cuMemMap(CUdeviceptr pointer, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle,
                  uint64_t flags);
CUresult cuMemSetAccess(CUdeviceptr pointer, size_t bytes, const void *access, size_t count);
CUresult cuMemUnmap(CUdeviceptr pointer, size_t bytes);
CUresult cuMemRelease(CUmemGenericAllocationHandle handle);
CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *handle, void *address);

// Copies and fills
CUresult cuMemcpy(CUdeviceptr to, CUdeviceptr from, size_t bytes);
CUresult cuMemcpy_ptds(CUdeviceptr to, CUdeviceptr from, size_t bytes);
CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream);
CUresult cuMemcpyAsync_ptsz(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream);
CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void *from, size_t bytes);
CUresult cuMemcpyHtoD_v2_ptds(CUdeviceptr to, const void *from, size_t bytes);
CUresult cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t bytes);
CUresult cuMemcpyDtoH_v2_ptds(void *to, CUdeviceptr from, size_t bytes);
CUresult cuMemcpyDtoD_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes);
CUresult cuMemcpyDtoD_v2_ptds(CUdeviceptr to, CUdeviceptr from, size_t bytes);
CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t bytes, CUstream stream);
CUresult cuMemcpyHtoDAsync_v2_ptsz(CUdeviceptr to, const void *from, size_t bytes, CUstream stream);
CUresult cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t bytes, CUstream stream);
CUresult cuMemcpyDtoHAsync_v2_ptsz(void *to, CUdeviceptr from, size_t bytes, CUstream stream);
CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream);
CUresult cuMemcpyDtoDAsync_v2_ptsz(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream);
CUresult cuMemcpyPeer(CUdeviceptr to, CUcontext toContext, CUdeviceptr from, CUcontext fromContext,
                      size_t bytes);
CUresult cuMemcpyPeerAsync(CUdeviceptr to, CUcontext toContext, CUdeviceptr from, CUcontext fromContext,
                           size_t bytes, CUstream stream);
CUresult cuMemcpy2D_v2(const CUDA_MEMCPY2D *copy);
CUresult cuMemcpy2D_v2_ptds(const CUDA_MEMCPY2D *copy);
CUresult cuMemcpy2DUnaligned_v2(const CUDA_MEMCPY2D *copy);
CUresult cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D *copy, CUstream stream);
CUresult cuMemcpy2DAsync_v2_ptsz(const CUDA_MEMCPY2D *copy, CUstream stream);
CUresult cuMemsetD8_v2(CUdeviceptr to, unsigned char value, size_t count);
CUresult cuMemsetD8_v2_ptds(CUdeviceptr to, unsigned char value, size_t count);
CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t count, CUstream stream);
CUresult cuMemsetD8Async_ptsz(CUdeviceptr to, unsigned char value, size_t count, CUstream stream);
CUresult cuMemsetD32_v2(CUdeviceptr to, unsigned value, size_t count);
CUresult cuMemsetD32Async(CUdeviceptr to, unsigned value, size_t count, CUstream stream);
CUresult cuMemsetD32Async_ptsz(CUdeviceptr to, unsigned value, size_t count, CUstream stream);

// Modules
CUresult cuModuleLoad(CUmodule *module, const char *path);
CUresult cuModuleLoadData(CUmodule *module, const void *image);
CUresult cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned optionCount, int *options,
                            void **values);
CUresult cuModuleLoadFatBinary(CUmodule *module, const void *image);
CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name);
CUresult cuModuleUnload(CUmodule module);
CUresult cuLibraryLoadData(CUlibrary *library, const void *code, int *jitOptions, void **jitValues,
                           unsigned jitCount, int *options, void **values, unsigned count);
CUresult cuLibraryLoadFromFile(CUlibrary *library, const char *path, int *jitOptions, void **jitValues,
                               unsigned jitCount, int *options, void **values, unsigned count);
CUresult cuLibraryGetModule(CUmodule *module, CUlibrary library);
CUresult cuLibraryUnload(CUlibrary library);
CUresult cuLibraryGetKernel(CUkernel *kernel, CUlibrary library, const char *name);
CUresult cuKernelGetFunction(CUfunction *function, CUkernel kernel);
CUresult cuKernelGetLibrary(CUlibrary *library, CUkernel kernel);
CUresult cuLinkCreate_v2(unsigned optionCount, int *options, void **values, CUlinkState *state);
CUresult cuLinkAddData_v2(CUlinkState state, int type, void *data, size_t bytes, const char *name,
                          unsigned optionCount, int *options, void **values);
CUresult cuLinkComplete(CUlinkState state, void **cubin, size_t *bytes);
CUresult cuLinkDestroy(CUlinkState state);

// Graphs
CUresult cuStreamBeginCapture(CUstream stream);
CUresult cuStreamBeginCapture_ptsz(CUstream stream);
CUresult cuStreamBeginCapture_v2(CUstream stream, int mode);
CUresult cuStreamBeginCapture_v2_ptsz(CUstream stream, int mode);
#define CAPTURE_ARGUMENTS                                                                                    \
    CUstream stream, CUgraph graph, const CUgraphNode *dependencies, const void *edges,                      \
        size_t dependencyCount, int mode
CUresult cuStreamBeginCaptureToGraph(CAPTURE_ARGUMENTS);
CUresult cuStreamBeginCaptureToGraph_ptsz(CAPTURE_ARGUMENTS);
CUresult cuStreamEndCapture(CUstream stream, CUgraph *graph);
CUresult cuStreamEndCapture_ptsz(CUstream stream, CUgraph *graph);
CUresult cuStreamIsCapturing(CUstream stream, int *status);
CUresult cuGraphCreate(CUgraph *graph, unsigned flags);
CUresult cuGraphClone(CUgraph *clone, CUgraph original);
#define NODE_ARGUMENTS                                                                                       \
    CUgraphNode *node, CUgraph graph, const CUgraphNode *dependencies, size_t dependencyCount
CUresult cuGraphAddKernelNode(NODE_ARGUMENTS, const CUDA_KERNEL_NODE_PARAMS_v1 *parameters);
CUresult cuGraphAddKernelNode_v2(NODE_ARGUMENTS, const CUDA_KERNEL_NODE_PARAMS *parameters);
CUresult cuGraphAddMemcpyNode(NODE_ARGUMENTS, const CUDA_MEMCPY3D *parameters, CUcontext context);
CUresult cuGraphAddMemsetNode(NODE_ARGUMENTS, const CUDA_MEMSET_NODE_PARAMS *parameters, CUcontext context);
CUresult cuGraphAddHostNode(NODE_ARGUMENTS, const CUDA_HOST_NODE_PARAMS *parameters);
CUresult cuGraphAddChildGraphNode(NODE_ARGUMENTS, CUgraph child);
#define INSTANTIATE_ARGUMENTS                                                                                \
    CUgraphExec *executable, CUgraph graph, CUgraphNode *errorNode, char *log, size_t logBytes
CUresult cuGraphInstantiate(INSTANTIATE_ARGUMENTS);
CUresult cuGraphInstantiate_v2(INSTANTIATE_ARGUMENTS);
CUresult cuGraphInstantiateWithFlags(CUgraphExec *executable, CUgraph graph, uint64_t flags);
CUresult cuGraphInstantiateWithParams(CUgraphExec *executable, CUgraph graph,
                                      CUDA_GRAPH_INSTANTIATE_PARAMS *parameters);
CUresult cuGraphInstantiateWithParams_ptsz(CUgraphExec *executable, CUgraph graph,
                                           CUDA_GRAPH_INSTANTIATE_PARAMS *parameters);
CUresult cuGraphLaunch(CUgraphExec executable, CUstream stream);
CUresult cuGraphLaunch_ptsz(CUgraphExec executable, CUstream stream);
CUresult cuGraphGetNodes(CUgraph graph, CUgraphNode *nodes, size_t *count);
CUresult cuGraphExecUpdate(CUgraphExec executable, CUgraph graph, CUgraphNode *errorNode, int *result);
CUresult cuGraphExecUpdate_v2(CUgraphExec executable, CUgraph graph, CUgraphExecUpdateResultInfo *result);
CUresult cuGraphDestroy(CUgraph graph);
CUresult cuGraphExecDestroy(CUgraphExec executable);

// Hooks of the stand-in. Code queued by simgpu_enqueue runs on the stream's thread and returns for how many
// more nanoseconds it keeps the stream busy.
CUresult simgpu_enqueue(CUstream stream, uint64_t (*code)(void *), void *arg);
int simgpu_is_capturing(CUstream stream);
uint64_t simgpu_get(const char *name);
// Sets a value for this process; -1 for a name that no field has.
int simgpu_set(const char *name, uint64_t value);
void simgpu_await_held_lock(void);
// Has NVML say how busy the GPU was since the last time: in the control page, where other processes read it.
void simgpu_publish_busy(void);
// Runs inside every launch of this process from now on; NULL for nothing.
void simgpu_in_launch(void (*run)(void));

#pragma GCC visibility pop
