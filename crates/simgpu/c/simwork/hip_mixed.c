// hip-mixed: every probed function of HIP, each with a size of its own, in the manner of mixed.
#include "../hip/hip.h"

#include "commands.h"
#include "gate.h"
#include "library.h"
#include "options.h"
#include "truth.h"

#define OP(name) __typeof__(name) *name;
static struct {
#include "hip_ops.def"
} hip;
#undef OP

#define SAME(function, bytes, stream, pointer, ...)                                                          \
    LISTED(function, #function, bytes, stream, pointer, hip.function(__VA_ARGS__))

#define HOST_BYTES (1 << 20)

static const dim3 grid = {7, 5, 3}, block = {32, 4, 2};
static char host[HOST_BYTES];
static void *device, *other_device;
static hipStream_t stream;
static hipFunction_t function;

static int stub(void) {
    return 1;
}

static void modules(void) {
    static const char image[] = "simwork";
    static char name[] = "_Z5scalePff";
    void **binary = hip.__hipRegisterFatBinary(image);
    truth_call(OP___hipRegisterFatBinary, "__hipRegisterFatBinary", 0, NULL, (uint64_t)binary, 0);
    hip.__hipRegisterFunction(binary, (const void *)stub, name, name, -1u, NULL, NULL, NULL, NULL, NULL);
    truth_call(OP___hipRegisterFunction, "__hipRegisterFunction", 0, NULL, (uint64_t)stub, 0);
    hipModule_t module;
    SAME(hipModuleLoad, 0, NULL, module, &module, "/proc/self/exe");
    SAME(hipModuleUnload, 0, NULL, module, module);
    SAME(hipModuleLoadDataEx, 0, NULL, module, &module, image, 0, NULL, NULL);
    SAME(hipModuleUnload, 0, NULL, module, module);
    SAME(hipModuleLoadData, 0, NULL, module, &module, image);
    SAME(hipModuleGetFunction, 0, NULL, function, &function, module, name);
    SAME(hipModuleUnload, 0, NULL, module, module);
}

static void memory(hipMemPool_t pool) {
    void *pointer;
    size_t pitch;
    hipMemGenericAllocationHandle_t handle;
    SAME(hipMalloc, 0x50100, NULL, pointer, &pointer, 0x50100);
    SAME(hipFree, 0, NULL, pointer, pointer);
    SAME(hipMallocAsync, 0x50200, stream, pointer, &pointer, 0x50200, stream);
    SAME(hipFreeAsync, 0, stream, pointer, pointer, stream);
    SAME(hipMallocFromPoolAsync, 0x50300, stream, pointer, &pointer, 0x50300, pool, stream);
    SAME(hipFreeAsync, 0, stream, pointer, pointer, stream);
    SAME(hipMallocManaged, 0x50400, NULL, pointer, &pointer, 0x50400, 1);
    SAME(hipFree, 0, NULL, pointer, pointer);
    SAME(hipMallocPitch, 500 * 21, NULL, pointer, &pointer, &pitch, 500, 21);
    SAME(hipFree, 0, NULL, pointer, pointer);
    SAME(hipHostMalloc, 0x50500, NULL, pointer, &pointer, 0x50500, 0);
    SAME(hipHostFree, 0, NULL, pointer, pointer);
    SAME(hipHostRegister, 0x50600, NULL, host, host, 0x50600, 0);
    SAME(hipHostUnregister, 0, NULL, host, host);
    SAME(hipMemAddressReserve, 0x400000, NULL, pointer, &pointer, 0x400000, 0, NULL, 0);
    SAME(hipMemCreate, 0x400000, NULL, handle, &handle, 0x400000, NULL, 0);
    SAME(hipMemMap, 0x400000, NULL, pointer, pointer, 0x400000, 0, handle, 0);
    SAME(hipMemSetAccess, 0x400000, NULL, pointer, pointer, 0x400000, NULL, 0);
    SAME(hipMemUnmap, 0x400000, NULL, pointer, pointer, 0x400000);
    SAME(hipMemRelease, 0, NULL, handle, handle);
    SAME(hipMemAddressFree, 0x400000, NULL, pointer, pointer, 0x400000);
}

static void copies(void) {
    SAME(hipMemcpy, 0x5001, NULL, device, device, host, 0x5001, hipMemcpyHostToDevice);
    SAME(hipMemcpy, 0x5002, NULL, host, host, device, 0x5002, hipMemcpyDeviceToHost);
    SAME(hipMemcpy, 0x5003, NULL, device, device, other_device, 0x5003, hipMemcpyDeviceToDevice);
    SAME(hipMemcpyAsync, 0x5004, stream, device, device, host, 0x5004, hipMemcpyHostToDevice, stream);
    SAME(hipMemcpyWithStream, 0x5005, stream, device, device, host, 0x5005, hipMemcpyHostToDevice, stream);
    SAME(hipMemcpyHtoD, 0x5011, NULL, device, device, host, 0x5011);
    SAME(hipMemcpyDtoH, 0x5012, NULL, host, host, device, 0x5012);
    SAME(hipMemcpyDtoD, 0x5013, NULL, device, device, other_device, 0x5013);
    SAME(hipMemcpyHtoDAsync, 0x5014, stream, device, device, host, 0x5014, stream);
    SAME(hipMemcpyDtoHAsync, 0x5015, stream, host, host, device, 0x5015, stream);
    SAME(hipMemcpyDtoDAsync, 0x5016, stream, device, device, other_device, 0x5016, stream);
    SAME(hipMemcpy2D, 100 * 31, NULL, device, device, 512, host, 100, 100, 31, hipMemcpyHostToDevice);
    SAME(hipMemcpy2DAsync, 100 * 32, stream, device, device, 512, host, 100, 100, 32, hipMemcpyHostToDevice,
         stream);
    SAME(hipMemcpyPeer, 0x5021, NULL, device, device, 0, other_device, 0, 0x5021);
    SAME(hipMemcpyPeerAsync, 0x5022, stream, device, device, 0, other_device, 0, 0x5022, stream);
    SAME(hipMemset, 0x5031, NULL, device, device, 0, 0x5031);
    SAME(hipMemsetAsync, 0x5032, stream, device, device, 0, 0x5032, stream);
    SAME(hipMemsetD8Async, 0x5033, stream, device, device, 0, 0x5033, stream);
    SAME(hipMemsetD32Async, 0x504 * 4, stream, device, device, 0, 0x504, stream);
}

static void launches(void) {
    const hipLaunchConfig_t config = {.gridDim = grid, .blockDim = block, .stream = stream};
    const void *kernel = (const void *)stub;
    SAME(hipLaunchKernel, 0, stream, kernel, kernel, grid, block, NULL, 0, stream);
    SAME(hipLaunchKernel, 0, NULL, kernel, kernel, grid, block, NULL, 0, NULL);
    SAME(hipExtLaunchKernel, 0, stream, kernel, kernel, grid, block, NULL, 0, stream, NULL, NULL, 0);
    SAME(hipLaunchKernelExC, 0, stream, kernel, &config, kernel, NULL);
    SAME(hipModuleLaunchKernel, 0, stream, function, function, 7, 5, 3, 32, 4, 2, 0, stream, NULL, NULL);
    SAME(hipExtModuleLaunchKernel, 0, stream, function, function, 224, 20, 6, 32, 4, 2, 0, stream, NULL, NULL,
         NULL, NULL, 0);
}

static void synchronisation(void) {
    hipEvent_t event, other;
    float milliseconds;
    SAME(hipEventCreate, 0, NULL, event, &event);
    SAME(hipEventCreateWithFlags, 0, NULL, other, &other, 1);
    SAME(hipEventRecord, 0, stream, event, event, stream);
    SAME(hipStreamWaitEvent, 0, NULL, event, NULL, event, 0);
    SAME(hipEventRecord, 0, stream, other, other, stream);
    SAME(hipEventSynchronize, 0, NULL, other, other);
    SAME(hipEventQuery, 0, NULL, other, other);
    SAME(hipEventElapsedTime, 0, NULL, event, &milliseconds, event, other);
    SAME(hipEventDestroy, 0, NULL, event, event);
    SAME(hipEventDestroy, 0, NULL, other, other);
    SAME(hipStreamSynchronize, 0, stream, 0, stream);
    SAME(hipStreamSynchronize, 0, NULL, 0, NULL);
    SAME(hipStreamQuery, 0, stream, 0, stream);
    SAME(hipDeviceSynchronize, 0, NULL, 0);
}

static void graphs(void) {
    hipGraph_t graph, empty;
    hipGraphExec_t executable, other;
    int result;
    SAME(hipStreamBeginCapture, 0, stream, 0, stream, 0);
    SAME(hipLaunchKernel, 0, stream, stub, (const void *)stub, grid, block, NULL, 0, stream);
    SAME(hipMemsetAsync, 0x5041, stream, device, device, 0, 0x5041, stream);
    SAME(hipStreamEndCapture, 0, stream, graph, stream, &graph);
    SAME(hipGraphCreate, 0, NULL, empty, &empty, 0);
    SAME(hipGraphInstantiate, 0, NULL, executable, &executable, graph, NULL, NULL, 0);
    SAME(hipGraphInstantiateWithFlags, 0, NULL, other, &other, graph, 0);
    SAME(hipGraphLaunch, 0, stream, executable, executable, stream);
    SAME(hipGraphExecUpdate, 0, NULL, executable, executable, graph, NULL, &result);
    SAME(hipGraphExecUpdate, 0, NULL, executable, executable, empty, NULL, &result); // fails: another shape
    SAME(hipStreamSynchronize, 0, stream, 0, stream);
    SAME(hipGraphExecDestroy, 0, NULL, other, other);
    SAME(hipGraphExecDestroy, 0, NULL, executable, executable);
    SAME(hipGraphDestroy, 0, NULL, empty, empty);
    SAME(hipGraphDestroy, 0, NULL, graph, graph);
}

static void failing_calls(void) {
    void *pointer = NULL;
    SAME(hipMalloc, 1ull << 52, NULL, pointer, &pointer, 1ull << 52);
    SAME(hipFree, 0, NULL, 0x7f7f7f7f9000, (void *)0x7f7f7f7f9000);
    SAME(hipMemcpy, 0x5051, NULL, 0, NULL, host, 0x5051, hipMemcpyHostToDevice);
    SAME(hipModuleLaunchKernel, 0, NULL, 0, NULL, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL);
}

int command_hip_mixed(char **arguments) {
    static const struct option none[] = {END};
    options_parse("hip-mixed", "every probed function of HIP, with distinct sizes", arguments, none);
    void *library = library_open("libamdhip64.so.6");
#define OP(name) hip.name = library_function(library, #name);
#include "hip_ops.def"
#undef OP
    FUNCTION(library, hipDeviceGetDefaultMemPool);
    truth_begin();
    gate_wait();
    hipMemPool_t pool;
    hipStream_t other;
    hipDeviceGetDefaultMemPool(&pool, 0);
    SAME(hipSetDevice, 0, NULL, 0, 0);
    SAME(hipStreamCreate, 0, NULL, stream, &stream);
    SAME(hipStreamCreateWithFlags, 0, NULL, other, &other, 1);
    SAME(hipMalloc, HOST_BYTES, NULL, device, &device, HOST_BYTES);
    SAME(hipMalloc, HOST_BYTES, NULL, other_device, &other_device, HOST_BYTES);
    modules();
    memory(pool);
    copies();
    launches();
    synchronisation();
    graphs();
    failing_calls();
    SAME(hipFree, 0, NULL, other_device, other_device);
    SAME(hipFree, 0, NULL, device, device);
    SAME(hipStreamDestroy, 0, NULL, other, other);
    SAME(hipStreamDestroy, 0, NULL, stream, stream);
    truth_print("hip-mixed");
    return 0;
}
