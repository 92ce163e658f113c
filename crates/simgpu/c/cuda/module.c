// Modules, libraries and kernels of the stand-in driver: a function is its name, and every name exists.
#include "module.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../engine/clock.h"
#include "../engine/control.h"

struct CUmod_st {
    int unused;
};

// Images are told apart by how they begin: PTX is text, which the driver has to compile first.
bool module_is_ptx(const void *image) {
    return strncmp(image, "//", 2) == 0 || strncmp(image, ".version", 8) == 0;
}

void module_compile(void) {
    uint64_t us = CONTROL(jit_us);
    if (us)
        spin_ns(us * 1000);
}

static CUresult load(void **module, const void *image) {
    if (!module || !image)
        return CUDA_ERROR_INVALID_VALUE;
    if (CONTROL(module_us))
        spin_ns(CONTROL(module_us) * 1000);
    if (module_is_ptx(image))
        module_compile();
    *module = calloc(1, sizeof(struct CUmod_st));
    return *module ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult load_file(void **module, const char *path) {
    char start[16] = {0};
    FILE *file = path ? fopen(path, "re") : NULL;
    if (!path)
        return CUDA_ERROR_INVALID_VALUE;
    if (!file)
        return CUDA_ERROR_FILE_NOT_FOUND;
    size_t bytes = fread(start, 1, sizeof start - 1, file);
    fclose(file);
    return bytes ? load(module, start) : CUDA_ERROR_INVALID_IMAGE;
}

CUresult cuModuleLoad(CUmodule *module, const char *path) {
    return load_file((void **)module, path);
}

CUresult cuModuleLoadData(CUmodule *module, const void *image) {
    return load((void **)module, image);
}

CUresult cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned optionCount, int *options,
                            void **values) {
    (void)optionCount, (void)options, (void)values;
    return load((void **)module, image);
}

CUresult cuModuleLoadFatBinary(CUmodule *module, const void *image) {
    return load((void **)module, image);
}

// Functions outlive their modules here: freeing them would leave launches in flight with a dangling name.
static CUresult get_function(void **function, void *module, const char *name) {
    if (!function || !module || !name)
        return CUDA_ERROR_INVALID_VALUE;
    if (!*name)
        return CUDA_ERROR_NOT_FOUND;
    struct CUfunc_st *made = malloc(sizeof *made + strlen(name) + 1);
    if (!made)
        return CUDA_ERROR_OUT_OF_MEMORY;
    made->magic = FUNCTION_MAGIC;
    made->module = module;
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
    return load((void **)library, code);
}

CUresult cuLibraryLoadFromFile(CUlibrary *library, const char *path, int *jitOptions, void **jitValues,
                               unsigned jitCount, int *options, void **values, unsigned count) {
    (void)jitOptions, (void)jitValues, (void)jitCount, (void)options, (void)values, (void)count;
    return load_file((void **)library, path);
}

CUresult cuLibraryGetModule(CUmodule *module, CUlibrary library) {
    if (!module || !library)
        return CUDA_ERROR_INVALID_VALUE;
    *module = (CUmodule)library;
    return CUDA_SUCCESS;
}

CUresult cuLibraryUnload(CUlibrary library) {
    free(library);
    return library ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
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

CUresult cuKernelGetLibrary(CUlibrary *library, CUkernel kernel) {
    if (!library || !kernel)
        return CUDA_ERROR_INVALID_VALUE;
    *library = ((CUfunction)kernel)->module;
    return CUDA_SUCCESS;
}
