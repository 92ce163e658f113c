// The part of the HIP interface that the stand-in offers, with the real names and the real ABI. Everything
// declared here is exported from libamdhip64.so.6. It stands on its own copy of the engine.
#pragma once

#include <stddef.h>
#include <stdint.h>

typedef int hipError_t;
typedef void *hipDeviceptr_t;
typedef struct ihipStream_t *hipStream_t;
typedef struct ihipEvent_t *hipEvent_t;
typedef struct ihipModule_t *hipModule_t;
typedef struct ihipModuleSymbol_t *hipFunction_t;
typedef struct ihipGraph *hipGraph_t;
typedef struct hipGraphNode *hipGraphNode_t;
typedef struct hipGraphExec *hipGraphExec_t;
typedef struct ihipMemPoolHandle_t *hipMemPool_t;
typedef struct ihipMemGenericAllocationHandle *hipMemGenericAllocationHandle_t;

typedef struct {
    unsigned x, y, z;
} dim3;

typedef struct {
    dim3 gridDim, blockDim;
    size_t dynamicSmemBytes;
    hipStream_t stream;
    void *attrs;
    unsigned numAttrs;
} hipLaunchConfig_t;

// The codes of the engine, which are those of CUDA, are HIP's too.
enum {
    hipSuccess = 0,
    hipErrorInvalidValue = 1,
    hipErrorOutOfMemory = 2,
    hipErrorInvalidDevice = 101,
    hipErrorFileNotFound = 301,
    hipErrorInvalidHandle = 400,
    hipErrorIllegalState = 401,
    hipErrorNotFound = 500,
    hipErrorNotReady = 600,
    hipErrorStreamCaptureUnsupported = 900,
    hipErrorGraphExecUpdateFailure = 910,
};

typedef enum {
    hipMemcpyHostToHost = 0,
    hipMemcpyHostToDevice = 1,
    hipMemcpyDeviceToHost = 2,
    hipMemcpyDeviceToDevice = 3,
    hipMemcpyDefault = 4,
} hipMemcpyKind;

#pragma GCC visibility push(default)

hipError_t hipInit(unsigned flags);
hipError_t hipGetDeviceCount(int *count);
hipError_t hipSetDevice(int device);
hipError_t hipGetDevice(int *device);
hipError_t hipDeviceSynchronize(void);

hipError_t hipMalloc(void **pointer, size_t bytes);
hipError_t hipFree(void *pointer);
hipError_t hipMallocAsync(void **pointer, size_t bytes, hipStream_t stream);
hipError_t hipFreeAsync(void *pointer, hipStream_t stream);
hipError_t hipDeviceGetDefaultMemPool(hipMemPool_t *pool, int device);
hipError_t hipMallocFromPoolAsync(void **pointer, size_t bytes, hipMemPool_t pool, hipStream_t stream);
hipError_t hipMallocManaged(void **pointer, size_t bytes, unsigned flags);
hipError_t hipMallocPitch(void **pointer, size_t *pitch, size_t width, size_t height);
hipError_t hipHostMalloc(void **pointer, size_t bytes, unsigned flags);
hipError_t hipHostFree(void *pointer);
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
hipError_t hipMemsetD8Async(hipDeviceptr_t to, unsigned char value, size_t count, hipStream_t stream);
hipError_t hipMemsetD32Async(hipDeviceptr_t to, int value, size_t count, hipStream_t stream);

#define MODULE_LAUNCH_ARGUMENTS                                                                              \
    hipFunction_t function, unsigned gridX, unsigned gridY, unsigned gridZ, unsigned blockX,                 \
        unsigned blockY, unsigned blockZ
hipError_t hipLaunchKernel(const void *function, dim3 grid, dim3 block, void **args, size_t sharedBytes,
                           hipStream_t stream);
hipError_t hipExtLaunchKernel(const void *function, dim3 grid, dim3 block, void **args, size_t sharedBytes,
                              hipStream_t stream, hipEvent_t start, hipEvent_t stop, int flags);
hipError_t hipLaunchKernelExC(const hipLaunchConfig_t *config, const void *function, void **args);
hipError_t hipModuleLaunchKernel(MODULE_LAUNCH_ARGUMENTS, unsigned sharedBytes, hipStream_t stream,
                                 void **parameters, void **extra);
hipError_t hipExtModuleLaunchKernel(MODULE_LAUNCH_ARGUMENTS, size_t sharedBytes, hipStream_t stream,
                                    void **parameters, void **extra, hipEvent_t start, hipEvent_t stop,
                                    uint32_t flags);

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
hipError_t hipEventSynchronize(hipEvent_t event);
hipError_t hipEventQuery(hipEvent_t event);
hipError_t hipEventElapsedTime(float *milliseconds, hipEvent_t start, hipEvent_t end);
hipError_t hipEventDestroy(hipEvent_t event);

hipError_t hipStreamBeginCapture(hipStream_t stream, int mode);
hipError_t hipStreamEndCapture(hipStream_t stream, hipGraph_t *graph);
hipError_t hipGraphCreate(hipGraph_t *graph, unsigned flags);
hipError_t hipGraphInstantiate(hipGraphExec_t *executable, hipGraph_t graph, hipGraphNode_t *errorNode,
                               char *log, size_t logBytes);
hipError_t hipGraphInstantiateWithFlags(hipGraphExec_t *executable, hipGraph_t graph,
                                        unsigned long long flags);
hipError_t hipGraphLaunch(hipGraphExec_t executable, hipStream_t stream);
hipError_t hipGraphExecUpdate(hipGraphExec_t executable, hipGraph_t graph, hipGraphNode_t *errorNode,
                              int *result);
hipError_t hipGraphDestroy(hipGraph_t graph);
hipError_t hipGraphExecDestroy(hipGraphExec_t executable);

#pragma GCC visibility pop
