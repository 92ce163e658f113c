// mixed: contexts, modules, libraries, linking.
#include "mixed.h"

#include <string.h>

CUfunction mixed_function, mixed_stub_function;
const void *mixed_stub;

static char ptx[] = "//\n.version 8.4\n";
// Any file that begins as a cubin does.
static const char file[] = "/proc/self/exe";

// The first bytes of an image are what tools read of it.
static uint64_t start_of(const char *image) {
    uint64_t start;
    memcpy(&start, image, sizeof start);
    return start;
}

// The runtime loads its library and finds a kernel in it when that is first asked for, and tells all three.
static void first_use_of_stub(void) {
    CUkernel kernel;
    CUlibrary library;
    mixed_stub = kernels_stub(KERNEL_MATMUL);
    cudaGetFuncBySymbol(&mixed_stub_function, mixed_stub);
    cudaGetKernel(&kernel, mixed_stub);
    cuKernelGetLibrary(&library, kernel);
    struct call loaded = {.op = OP_cuLibraryLoadData, .pointer = (uint64_t)library};
    struct call found = {.op = OP_cuLibraryGetKernel, .pointer = (uint64_t)kernel};
    struct call made = {.op = OP_cuKernelGetFunction, .pointer = (uint64_t)mixed_stub_function};
    loaded.api = found.api = made.api = "cudaGetFuncBySymbol";
    loaded.aux = start_of("simgpu\0");
    found.aux = (uint64_t)library;
    found.name = kernels_name(KERNEL_MATMUL);
    made.aux = (uint64_t)kernel;
    truth_call(loaded);
    truth_call(found);
    truth_call(made);
}

void mixed_functions(void) {
    static const char image[] = "\x7f"
                                "ELF\x02\x01\x01";
    CUmodule module;
    first_use_of_stub();
    NAMED(cuModuleLoadData, module, start_of(image), NULL, &module, image);
    NAMED(cuModuleGetFunction, mixed_function, module, "_Z7softmaxPKfPfi", &mixed_function, module,
          "_Z7softmaxPKfPfi");
}

static void contexts(void) {
    CUcontext context;
    SAME(cuDevicePrimaryCtxRetain, 0, NULL, context, &context, 0);
    SAME(cuCtxCreate_v2, 0, NULL, context, &context, 0, 0);
    SAME(cuCtxDestroy_v2, 0, NULL, context, context);
    SAME(cuCtxCreate_v3, 0, NULL, context, &context, NULL, 0, 0, 0);
    SAME(cuCtxDestroy_v2, 0, NULL, context, context);
    SAME(cuCtxCreate_v4, 0, NULL, context, &context, NULL, 0, 0);
    SAME(cuCtxDestroy_v2, 0, NULL, context, context);
}

static void modules(void) {
    CUmodule module;
    CUfunction function;
    NAMED(cuModuleLoad, module, 0, file, &module, file);
    NAMED(cuModuleGetFunction, function, module, "_Z4fillPff", &function, module, "_Z4fillPff");
    SAME(cuModuleUnload, 0, NULL, module, module);
    NAMED(cuModuleLoadDataEx, module, start_of(ptx), NULL, &module, ptx, 0, NULL, NULL);
    SAME(cuModuleUnload, 0, NULL, module, module);
    NAMED(cuModuleLoadFatBinary, module, start_of(ptx), NULL, &module, ptx);
    NAMED(cuModuleGetFunction, function, module, "_Z4copyPfPKf", &function, module, "_Z4copyPfPKf");
    SAME(cuModuleUnload, 0, NULL, module, module);
}

static void libraries(void) {
    CUlibrary library;
    CUmodule module;
    CUkernel kernel;
    CUfunction function;
    NAMED(cuLibraryLoadData, library, start_of(ptx), NULL, &library, ptx, NULL, NULL, 0, NULL, NULL, 0);
    NAMED(cuLibraryGetKernel, kernel, library, "_Z5scalePff", &kernel, library, "_Z5scalePff");
    PAIR(cuKernelGetFunction, 0, NULL, function, kernel, &function, kernel);
    SAME(cuLibraryGetModule, 0, NULL, module, &module, library);
    SAME(cuLibraryUnload, 0, NULL, library, library);
    NAMED(cuLibraryLoadFromFile, library, 0, file, &library, file, NULL, NULL, 0, NULL, NULL, 0);
    SAME(cuLibraryUnload, 0, NULL, library, library);
}

// Tools ask of these only how long they take.
static void linking(void) {
    CUlinkState state;
    void *cubin;
    size_t bytes = 0;
    SAME(cuLinkCreate_v2, 0, NULL, state, 0, NULL, NULL, &state);
    SAME(cuLinkAddData_v2, 0, NULL, 0, state, 1, ptx, sizeof ptx, "a.ptx", 0, NULL, NULL);
    SAME(cuLinkComplete, 0, NULL, 0, state, &cubin, &bytes);
    SAME(cuLinkDestroy, 0, NULL, state, state);
}

void mixed_modules(void) {
    contexts();
    modules();
    libraries();
    linking();
}
