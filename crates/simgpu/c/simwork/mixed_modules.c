// mixed: contexts, modules, libraries, linking.
#include "mixed.h"

static char ptx[] = "//\n.version 8.4\n";
// Any file that begins as a cubin does.
static const char file[] = "/proc/self/exe";

static void contexts(void) {
    CUcontext context;
    SAME(cuCtxCreate_v2, 0, NULL, context, &context, 0, 0);
    SAME(cuCtxDestroy_v2, 0, NULL, context, context);
    SAME(cuCtxCreate_v4, 0, NULL, context, &context, NULL, 0, 0);
    SAME(cuCtxDestroy_v2, 0, NULL, context, context);
}

static void modules(void) {
    CUmodule module;
    CUfunction function;
    SAME(cuModuleLoad, 0, NULL, module, &module, file);
    SAME(cuModuleUnload, 0, NULL, module, module);
    SAME(cuModuleLoadDataEx, 0, NULL, module, &module, ptx, 0, NULL, NULL);
    SAME(cuModuleUnload, 0, NULL, module, module);
    SAME(cuModuleLoadFatBinary, 0, NULL, module, &module, ptx);
    SAME(cuModuleGetFunction, 0, NULL, function, &function, module, "_Z4copyPfPKf");
    SAME(cuModuleUnload, 0, NULL, module, module);
}

static void libraries(void) {
    CUlibrary library;
    CUmodule module;
    CUkernel kernel;
    CUfunction function;
    SAME(cuLibraryLoadData, 0, NULL, library, &library, ptx, NULL, NULL, 0, NULL, NULL, 0);
    SAME(cuLibraryGetKernel, 0, NULL, kernel, &kernel, library, "_Z5scalePff");
    SAME(cuKernelGetFunction, 0, NULL, function, &function, kernel);
    SAME(cuLibraryGetModule, 0, NULL, module, &module, library);
    SAME(cuLibraryUnload, 0, NULL, library, library);
    SAME(cuLibraryLoadFromFile, 0, NULL, library, &library, file, NULL, NULL, 0, NULL, NULL, 0);
    SAME(cuLibraryUnload, 0, NULL, library, library);
}

static void linking(void) {
    CUlinkState state;
    void *cubin;
    size_t bytes = 0;
    SAME(cuLinkCreate_v2, 0, NULL, state, 0, NULL, NULL, &state);
    SAME(cuLinkAddData_v2, sizeof ptx, NULL, state, state, 1, ptx, sizeof ptx, "a.ptx", 0, NULL, NULL);
    SAME(cuLinkComplete, bytes, NULL, state, state, &cubin, &bytes);
    SAME(cuLinkDestroy, 0, NULL, state, state);
}

void mixed_modules(void) {
    contexts();
    modules();
    libraries();
    linking();
}
