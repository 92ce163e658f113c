// Modules, libraries and kernels of the stand-in driver: a function is its name, and every name exists.
#include "module.h"

#include <stdlib.h>
#include <string.h>

struct CUmod_st {
    int unused;
};

static CUresult load(void **module) {
    if (!module)
        return CUDA_ERROR_INVALID_VALUE;
    *module = calloc(1, sizeof(struct CUmod_st));
    return *module ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuModuleLoad(CUmodule *module, const char *path) {
    return path ? load((void **)module) : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuModuleLoadData(CUmodule *module, const void *image) {
    return image ? load((void **)module) : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned optionCount, int *options,
                            void **values) {
    (void)optionCount, (void)options, (void)values;
    return image ? load((void **)module) : CUDA_ERROR_INVALID_VALUE;
}

// Functions outlive their modules here: freeing them would leave launches in flight with a dangling name.
static CUresult get_function(void **function, const void *module, const char *name) {
    if (!function || !module || !name)
        return CUDA_ERROR_INVALID_VALUE;
    if (!*name)
        return CUDA_ERROR_NOT_FOUND;
    struct CUfunc_st *made = malloc(sizeof *made + strlen(name) + 1);
    if (!made)
        return CUDA_ERROR_OUT_OF_MEMORY;
    made->magic = FUNCTION_MAGIC;
    strcpy(made->name, name);
    *function = made;
    return CUDA_SUCCESS;
}

CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name) {
    return get_function((void **)function, module, name);
}

CUresult cuModuleUnload(CUmodule module) {
    free(module);
    return module ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult cuLibraryLoadData(CUlibrary *library, const void *code, int *jitOptions, void **jitValues,
                           unsigned jitCount, int *options, void **values, unsigned count) {
    (void)jitOptions, (void)jitValues, (void)jitCount, (void)options, (void)values, (void)count;
    return code ? load((void **)library) : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuLibraryGetKernel(CUkernel *kernel, CUlibrary library, const char *name) {
    return get_function((void **)kernel, library, name);
}

CUresult cuKernelGetFunction(CUfunction *function, CUkernel kernel) {
    if (!function || !kernel)
        return CUDA_ERROR_INVALID_VALUE;
    *function = (CUfunction)kernel;
    return CUDA_SUCCESS;
}
