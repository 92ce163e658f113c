// The kernels that workloads launch.
#include "kernels.h"

#include <stdbool.h>
#include <string.h>

#include "options.h"
#include "truth.h"

// Host stubs, as the compiler makes one per kernel. They differ, so that the linker cannot fold them.
static int stub_matmul(void) {
    return 1;
}

static int stub_softmax(void) {
    return 2;
}

static int stub_adamw(void) {
    return 3;
}

static const struct {
    int (*stub)(void);
    const char *name;
} kernels[KERNEL_COUNT] = {
    [KERNEL_MATMUL] = {stub_matmul, "_Z6matmulPKfS0_Pfi"},
    [KERNEL_SOFTMAX] = {stub_softmax, "_Z7softmaxPKfPfi"},
    [KERNEL_ADAMW] = {stub_adamw, "_Z10adamw_stepPfS_S_PKffi"},
};

static const char image[] = "simwork";
static CUmodule module;
static CUfunction functions[KERNEL_COUNT];

static const dim3 grid = {128, 2, 1};
static const dim3 block = {256, 1, 1};

const char *kernels_name(enum kernel kernel) {
    return kernels[kernel].name;
}

const void *kernels_stub(enum kernel kernel) {
    return (const void *)kernels[kernel].stub;
}

CUfunction kernels_function(enum kernel kernel) {
    return functions[kernel];
}

void kernels_register(void) {
    void **binary = __cudaRegisterFatBinary((void *)image);
    for (int kernel = 0; kernel < KERNEL_COUNT; kernel++)
        __cudaRegisterFunction(binary, kernels_stub(kernel), (char *)kernels[kernel].name,
                               kernels[kernel].name, -1, NULL, NULL, NULL, NULL, NULL);
    int devices;
    cudaGetDeviceCount(&devices);
}

void kernels_load_module(void) {
    if (module)
        return;
    CALL(cuModuleLoadData, &module, image);
    for (int kernel = 0; kernel < KERNEL_COUNT; kernel++)
        CALL(cuModuleGetFunction, &functions[kernel], module, kernels[kernel].name);
}

enum via kernels_via(const char *name) {
    if (strcmp(name, "runtime") == 0)
        return VIA_RUNTIME;
    if (strcmp(name, "driver") == 0)
        return VIA_DRIVER;
    if (strcmp(name, "ex") == 0)
        return VIA_EX;
    options_refuse("--via is runtime, driver or ex, not \"%s\"", name);
}

// Not inlined, and not static: a name for the stacks of the demo.
__attribute__((noinline)) int kernels_launch(enum via via, enum kernel kernel, cudaStream_t stream) {
    if (via == VIA_RUNTIME)
        return cudaLaunchKernel(kernels_stub(kernel), grid, block, NULL, 0, stream);
    if (via == VIA_DRIVER)
        return cuLaunchKernel(functions[kernel], grid.x, grid.y, grid.z, block.x, block.y, block.z, 0, stream,
                              NULL, NULL);
    CUlaunchConfig config = {grid.x, grid.y, grid.z, block.x, block.y, block.z, 0, stream, NULL, 0};
    return cuLaunchKernelEx(&config, functions[kernel], NULL, NULL);
}

void kernels_count(enum via via, uint64_t launches) {
    truth_add(via == VIA_EX ? OP_cuLaunchKernelEx : OP_cuLaunchKernel, launches);
}

void kernels_first_use(enum via via, enum kernel kernel) {
    static _Atomic bool library_used, used[KERNEL_COUNT];
    if (via != VIA_RUNTIME || __atomic_exchange_n((bool *)&used[kernel], true, __ATOMIC_SEQ_CST))
        return;
    if (!__atomic_exchange_n((bool *)&library_used, true, __ATOMIC_SEQ_CST))
        truth_add(OP_cuLibraryLoadData, 1);
    truth_add(OP_cuLibraryGetKernel, 1);
    truth_add(OP_cuKernelGetFunction, 1);
}
