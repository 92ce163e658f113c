// The part of the HIP interface that the stand-in offers, with the real names and the real ABI. Everything
// declared here is exported from libamdhip64.so.6. It stands on its own copy of the engine.
#pragma once

#include "types.h"

#pragma GCC visibility push(default)

hipError_t hipInit(unsigned flags);
hipError_t hipGetDeviceCount(int *count);
hipError_t hipSetDevice(int device);
hipError_t hipGetDevice(int *device);
hipError_t hipDeviceSynchronize(void);

hipError_t hipMalloc(void **pointer, size_t bytes);
hipError_t hipFree(void *pointer);
hipError_t hipExtMallocWithFlags(void **pointer, size_t bytes, unsigned flags);
hipError_t hipMallocAsync(void **pointer, size_t bytes, hipStream_t stream);
hipError_t hipFreeAsync(void *pointer, hipStream_t stream);
hipError_t hipDeviceGetDefaultMemPool(hipMemPool_t *pool, int device);
hipError_t hipMallocFromPoolAsync(void **pointer, size_t bytes, hipMemPool_t pool, hipStream_t stream);
hipError_t hipMallocManaged(void **pointer, size_t bytes, unsigned flags);
hipError_t hipMallocPitch(void **pointer, size_t *pitch, size_t width, size_t height);
hipError_t hipHostMalloc(void **pointer, size_t bytes, unsigned flags);
hipError_t hipHostAlloc(void **pointer, size_t bytes, unsigned flags);
hipError_t hipMallocHost(void **pointer, size_t bytes);
hipError_t hipHostFree(void *pointer);
hipError_t hipFreeHost(void *pointer);
hipError_t hipHostRegister(void *pointer, size_t bytes, unsigned flags);
hipError_t hipHostUnregister(void *pointer);
hipError_t hipMemGetInfo(size_t *free, size_t *total);
hipError_t hipMemAddressReserve(void **pointer, size_t bytes, size_t alignment, void *hint, uint64_t flags);
hipError_t hipMemAddressFree(void *pointer, size_t bytes);
hipError_t hipMemCreate(hipMemGenericAllocationHandle_t *handle, size_t bytes, const void *properties,
                        uint64_t flags);
hipError_t hipMemMap(void *pointer, size_t bytes, size_t offset, hipMemGenericAllocationHandle_t handle,
                     uint64_t flags);
hipError_t hipMemSetAccess(void *pointer, size_t bytes, const void *access, size_t count);
hipError_t hipMemUnmap(void *pointer, size_t bytes);
hipError_t hipMemRelease(hipMemGenericAllocationHandle_t handle);
hipError_t hipMemRetainAllocationHandle(hipMemGenericAllocationHandle_t *handle, void *address);

hipError_t hipMemcpy(void *to, const void *from, size_t bytes, hipMemcpyKind kind);
hipError_t hipMemcpyAsync(void *to, const void *from, size_t bytes, hipMemcpyKind kind, hipStream_t stream);
hipError_t hipMemcpyWithStream(void *to, const void *from, size_t bytes, hipMemcpyKind kind,
                               hipStream_t stream);
hipError_t hipMemcpyHtoD(hipDeviceptr_t to, const void *from, size_t bytes);
hipError_t hipMemcpyDtoH(void *to, hipDeviceptr_t from, size_t bytes);
hipError_t hipMemcpyDtoD(hipDeviceptr_t to, hipDeviceptr_t from, size_t bytes);
hipError_t hipMemcpyHtoDAsync(hipDeviceptr_t to, const void *from, size_t bytes, hipStream_t stream);
hipError_t hipMemcpyDtoHAsync(void *to, hipDeviceptr_t from, size_t bytes, hipStream_t stream);
hipError_t hipMemcpyDtoDAsync(hipDeviceptr_t to, hipDeviceptr_t from, size_t bytes, hipStream_t stream);
hipError_t hipMemcpy2D(void *to, size_t toPitch, const void *from, size_t fromPitch, size_t width,
                       size_t height, hipMemcpyKind kind);
hipError_t hipMemcpy2DAsync(void *to, size_t toPitch, const void *from, size_t fromPitch, size_t width,
                            size_t height, hipMemcpyKind kind, hipStream_t stream);
hipError_t hipMemcpyPeer(void *to, int toDevice, const void *from, int fromDevice, size_t bytes);
hipError_t hipMemcpyPeerAsync(void *to, int toDevice, const void *from, int fromDevice, size_t bytes,
                              hipStream_t stream);
hipError_t hipMemset(void *to, int value, size_t bytes);
hipError_t hipMemsetAsync(void *to, int value, size_t bytes, hipStream_t stream);
hipError_t hipMemsetD8(hipDeviceptr_t to, unsigned char value, size_t count);
hipError_t hipMemsetD8Async(hipDeviceptr_t to, unsigned char value, size_t count, hipStream_t stream);
hipError_t hipMemsetD32(hipDeviceptr_t to, int value, size_t count);
hipError_t hipMemsetD32Async(hipDeviceptr_t to, int value, size_t count, hipStream_t stream);

#define MODULE_LAUNCH_ARGUMENTS                                                                              \
    hipFunction_t function, unsigned gridX, unsigned gridY, unsigned gridZ, unsigned blockX,                 \
        unsigned blockY, unsigned blockZ
hipError_t hipLaunchKernel(const void *function, dim3 grid, dim3 block, void **args, size_t sharedBytes,
                           hipStream_t stream);
hipError_t hipLaunchKernel_spt(const void *function, dim3 grid, dim3 block, void **args, size_t sharedBytes,
                               hipStream_t stream);
hipError_t hipLaunchCooperativeKernel(const void *function, dim3 grid, dim3 block, void **args,
                                      unsigned sharedBytes, hipStream_t stream);
hipError_t hipExtLaunchKernel(const void *function, dim3 grid, dim3 block, void **args, size_t sharedBytes,
                              hipStream_t stream, hipEvent_t start, hipEvent_t stop, int flags);
hipError_t hipLaunchKernelExC(const hipLaunchConfig_t *config, const void *function, void **args);
hipError_t hipModuleLaunchKernel(MODULE_LAUNCH_ARGUMENTS, unsigned sharedBytes, hipStream_t stream,
                                 void **parameters, void **extra);
hipError_t hipModuleLaunchCooperativeKernel(MODULE_LAUNCH_ARGUMENTS, unsigned sharedBytes, hipStream_t stream,
                                            void **parameters);
hipError_t hipHccModuleLaunchKernel(MODULE_LAUNCH_ARGUMENTS, size_t sharedBytes, hipStream_t stream,
                                    void **parameters, void **extra, hipEvent_t start, hipEvent_t stop);
hipError_t hipExtModuleLaunchKernel(MODULE_LAUNCH_ARGUMENTS, size_t sharedBytes, hipStream_t stream,
                                    void **parameters, void **extra, hipEvent_t start, hipEvent_t stop,
                                    uint32_t flags);
hipError_t hipLaunchHostFunc(hipStream_t stream, hipHostFn_t function, void *arg);

hipError_t hipModuleLoad(hipModule_t *module, const char *path);
hipError_t hipModuleLoadData(hipModule_t *module, const void *image);
hipError_t hipModuleLoadDataEx(hipModule_t *module, const void *image, unsigned optionCount, int *options,
                               void **values);
hipError_t hipModuleGetFunction(hipFunction_t *function, hipModule_t module, const char *name);
hipError_t hipModuleUnload(hipModule_t module);
void **__hipRegisterFatBinary(const void *image);
void __hipRegisterFunction(void **modules, const void *hostFunction, char *deviceFunction,
                           const char *deviceName, unsigned threadLimit, void *tid, void *bid, void *blockDim,
                           void *gridDim, int *warpSize);
void __hipUnregisterFatBinary(void **modules);

hipError_t hipStreamCreate(hipStream_t *stream);
hipError_t hipStreamCreateWithFlags(hipStream_t *stream, unsigned flags);
hipError_t hipStreamDestroy(hipStream_t stream);
hipError_t hipStreamSynchronize(hipStream_t stream);
hipError_t hipStreamQuery(hipStream_t stream);
hipError_t hipStreamWaitEvent(hipStream_t stream, hipEvent_t event, unsigned flags);
hipError_t hipEventCreate(hipEvent_t *event);
hipError_t hipEventCreateWithFlags(hipEvent_t *event, unsigned flags);
hipError_t hipEventRecord(hipEvent_t event, hipStream_t stream);
hipError_t hipEventRecordWithFlags(hipEvent_t event, hipStream_t stream, unsigned flags);
hipError_t hipEventSynchronize(hipEvent_t event);
hipError_t hipEventQuery(hipEvent_t event);
hipError_t hipEventElapsedTime(float *milliseconds, hipEvent_t start, hipEvent_t end);
hipError_t hipEventDestroy(hipEvent_t event);

hipError_t hipStreamBeginCapture(hipStream_t stream, int mode);
hipError_t hipStreamEndCapture(hipStream_t stream, hipGraph_t *graph);
hipError_t hipGraphCreate(hipGraph_t *graph, unsigned flags);
hipError_t hipGraphClone(hipGraph_t *clone, hipGraph_t original);
hipError_t hipGraphInstantiate(hipGraphExec_t *executable, hipGraph_t graph, hipGraphNode_t *errorNode,
                               char *log, size_t logBytes);
hipError_t hipGraphInstantiateWithFlags(hipGraphExec_t *executable, hipGraph_t graph,
                                        unsigned long long flags);
hipError_t hipGraphInstantiateWithParams(hipGraphExec_t *executable, hipGraph_t graph,
                                         hipGraphInstantiateParams *parameters);
hipError_t hipGraphLaunch(hipGraphExec_t executable, hipStream_t stream);
hipError_t hipGraphExecUpdate(hipGraphExec_t executable, hipGraph_t graph, hipGraphNode_t *errorNode,
                              int *result);
hipError_t hipGraphDestroy(hipGraph_t graph);
hipError_t hipGraphExecDestroy(hipGraphExec_t executable);
#define NODE_ARGUMENTS                                                                                       \
    hipGraphNode_t *node, hipGraph_t graph, const hipGraphNode_t *dependencies, size_t dependencyCount
hipError_t hipGraphAddKernelNode(NODE_ARGUMENTS, const hipKernelNodeParams *parameters);
hipError_t hipGraphAddMemcpyNode(NODE_ARGUMENTS, const hipMemcpy3DParms *parameters);
hipError_t hipGraphAddMemsetNode(NODE_ARGUMENTS, const hipMemsetParams *parameters);
hipError_t hipGraphAddHostNode(NODE_ARGUMENTS, const hipHostNodeParams *parameters);
hipError_t hipGraphAddChildGraphNode(NODE_ARGUMENTS, hipGraph_t child);

#pragma GCC visibility pop
