// hip-mixed: every probed function of HIP, each with a size of its own, in the manner of mixed.
#include "hip_mixed.h"

#include <string.h>

#include "commands.h"
#include "gate.h"
#include "library.h"
#include "options.h"

#define GRID 7, 5, 3
#define BLOCK 32, 4, 2
// The same grid, by threads.
#define THREADS 7 * 32, 5 * 4, 3 * 2

struct hip hip;
const dim3 hip_grid = {GRID}, hip_block = {BLOCK};
char hip_host[HOST_BYTES];
void *hip_device, *hip_other;
hipStream_t hip_stream, hip_side;
const void *hip_stub;

static hipFunction_t function;

static int stub(void) {
    return 1;
}

static void do_nothing(void *arg) {
    (void)arg;
}

static void tell_shape(void) {
    fprintf(truth_more(), ",\"grid\":[%u,%u,%u],\"block\":[%u,%u,%u],\"shared_bytes\":%d", hip_grid.x,
            hip_grid.y, hip_grid.z, hip_block.x, hip_block.y, hip_block.z, SHARED_BYTES);
}

// A name that a compiled program gives when it starts.
static void register_stub(const char *image) {
    static char name[] = "_Z4fillPff";
    void **binary = hip.__hipRegisterFatBinary(image);
    truth_call((struct call){
        .op = OP___hipRegisterFatBinary, .api = "__hipRegisterFatBinary", .pointer = (uint64_t)binary});
    hip_stub = (const void *)stub;
    hip.__hipRegisterFunction(binary, hip_stub, name, name, -1u, NULL, NULL, NULL, NULL, NULL);
    truth_call((struct call){.op = OP___hipRegisterFunction,
                             .api = "__hipRegisterFunction",
                             .pointer = (uint64_t)hip_stub,
                             .aux = (uint64_t)name,
                             .name = name});
}

static void modules(void) {
    static const char image[8] = "simwork", file[] = "/proc/self/exe", name[] = "_Z5scalePff";
    uint64_t start; // of the image: what tools read of it
    memcpy(&start, image, sizeof start);
    register_stub(image);
    hipModule_t module;
    NAMED(hipModuleLoad, module, 0, file, &module, file);
    SAME(hipModuleUnload, 0, NULL, module, module);
    NAMED(hipModuleLoadDataEx, module, start, NULL, &module, image, 0, NULL, NULL);
    SAME(hipModuleUnload, 0, NULL, module, module);
    NAMED(hipModuleLoadData, module, start, NULL, &module, image);
    NAMED(hipModuleGetFunction, function, module, name, &function, module, name);
    SAME(hipModuleUnload, 0, NULL, module, module);
}

static void launches(void) {
    const hipLaunchConfig_t config = {
        .gridDim = hip_grid, .blockDim = hip_block, .dynamicSmemBytes = SHARED_BYTES, .stream = hip_stream};
    SAME(hipLaunchKernel, 0, hip_stream, hip_stub, hip_stub, hip_grid, hip_block, NULL, SHARED_BYTES,
         hip_stream);
    SAME(hipLaunchKernel, 0, NULL, hip_stub, hip_stub, hip_grid, hip_block, NULL, SHARED_BYTES, NULL);
    SAME(hipLaunchKernel_spt, 0, hip_side, hip_stub, hip_stub, hip_grid, hip_block, NULL, SHARED_BYTES,
         hip_side);
    SAME(hipExtLaunchKernel, 0, hip_stream, hip_stub, hip_stub, hip_grid, hip_block, NULL, SHARED_BYTES,
         hip_stream, NULL, NULL, 0);
    SAME(hipLaunchCooperativeKernel, 0, hip_side, hip_stub, hip_stub, hip_grid, hip_block, NULL, SHARED_BYTES,
         hip_side);
    SAME(hipLaunchKernelExC, 0, hip_stream, hip_stub, &config, hip_stub, NULL);
    SAME(hipModuleLaunchKernel, 0, hip_stream, function, function, GRID, BLOCK, SHARED_BYTES, hip_stream,
         NULL, NULL);
    SAME(hipModuleLaunchCooperativeKernel, 0, hip_side, function, function, GRID, BLOCK, SHARED_BYTES,
         hip_side, NULL);
    SAME(hipExtModuleLaunchKernel, 0, hip_stream, function, function, THREADS, BLOCK, SHARED_BYTES,
         hip_stream, NULL, NULL, NULL, NULL, 0);
    SAME(hipHccModuleLaunchKernel, 0, hip_side, function, function, THREADS, BLOCK, SHARED_BYTES, hip_side,
         NULL, NULL, NULL, NULL);
    SAME(hipLaunchHostFunc, 0, hip_stream, do_nothing, hip_stream, do_nothing, hip_host);
}

static void synchronisation(void) {
    hipEvent_t event, other;
    float milliseconds;
    SAME(hipEventCreate, 0, NULL, event, &event);
    SAME(hipEventCreateWithFlags, 0, NULL, other, &other, 1);
    SAME(hipEventRecord, 0, hip_stream, event, event, hip_stream);
    SAME(hipStreamWaitEvent, 0, hip_side, event, hip_side, event, 0);
    SAME(hipEventRecordWithFlags, 0, hip_stream, other, other, hip_stream, 0);
    SAME(hipEventSynchronize, 0, NULL, other, other);
    SAME(hipEventQuery, 0, NULL, other, other);
    SAME(hipEventElapsedTime, 0, NULL, event, &milliseconds, event, other);
    SAME(hipEventDestroy, 0, NULL, event, event);
    SAME(hipEventDestroy, 0, NULL, other, other);
    SAME(hipStreamSynchronize, 0, hip_stream, 0, hip_stream);
    SAME(hipStreamSynchronize, 0, NULL, 0, NULL);
    SAME(hipStreamQuery, 0, hip_stream, 0, hip_stream);
    SAME(hipDeviceSynchronize, 0, NULL, 0);
}

static void failing_calls(void) {
    void *pointer = NULL;
    SAME(hipMalloc, 1ull << 52, NULL, pointer, &pointer, 1ull << 52);
    SAME(hipFree, 0, NULL, 0x7f7f7f7f9000, (void *)0x7f7f7f7f9000);
    COPY(hipMemcpy, 0x5051, NULL, NULL, hip_host, "host_to_device", NULL, hip_host, 0x5051,
         hipMemcpyHostToDevice);
    SAME(hipModuleLaunchKernel, 0, NULL, 0, NULL, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL);
}

int command_hip_mixed(char **arguments) {
    static const struct option none[] = {END};
    options_parse("hip-mixed", "every probed function of HIP, with distinct sizes", arguments, none);
    void *library = library_open("libamdhip64.so.6");
#define OP(name) hip.name = library_function(library, #name);
#include "hip_ops.def"
#undef OP
    truth_begin();
    gate_wait();
    SAME(hipSetDevice, 0, NULL, 0, 0);
    SAME(hipStreamCreate, 0, NULL, hip_stream, &hip_stream);
    SAME(hipStreamCreateWithFlags, 0, NULL, hip_side, &hip_side, 1);
    SAME(hipMalloc, HOST_BYTES, NULL, hip_device, &hip_device, HOST_BYTES);
    SAME(hipMalloc, HOST_BYTES, NULL, hip_other, &hip_other, HOST_BYTES);
    modules();
    hip_memory();
    hip_copies();
    launches();
    synchronisation();
    hip_graphs();
    failing_calls();
    SAME(hipFree, 0, NULL, hip_other, hip_other);
    SAME(hipFree, 0, NULL, hip_device, hip_device);
    SAME(hipStreamDestroy, 0, NULL, hip_side, hip_side);
    SAME(hipStreamDestroy, 0, NULL, hip_stream, hip_stream);
    tell_shape();
    truth_print("hip-mixed");
    return 0;
}
