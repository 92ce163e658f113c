// Modules of the stand-in HIP: a function is its name, and every name exists.
#include "module.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../engine/clock.h"
#include "../engine/control.h"

struct ihipModule_t {
    int unused;
};

static hipError_t load(hipModule_t *module, const void *image) {
    if (!module || !image)
        return hipErrorInvalidValue;
    if (CONTROL(module_us))
        spin_ns(CONTROL(module_us) * 1000);
    *module = calloc(1, sizeof **module);
    return *module ? hipSuccess : hipErrorOutOfMemory;
}

hipError_t hipModuleLoad(hipModule_t *module, const char *path) {
    if (path && access(path, R_OK) != 0)
        return hipErrorFileNotFound;
    return load(module, path);
}

hipError_t hipModuleLoadData(hipModule_t *module, const void *image) {
    return load(module, image);
}

hipError_t hipModuleLoadDataEx(hipModule_t *module, const void *image, unsigned optionCount, int *options,
                               void **values) {
    (void)optionCount, (void)options, (void)values;
    return load(module, image);
}

// Functions outlive their modules here: freeing them would leave launches in flight with a dangling name.
hipError_t hipModuleGetFunction(hipFunction_t *function, hipModule_t module, const char *name) {
    if (!function || !module || !name)
        return hipErrorInvalidValue;
    if (!*name)
        return hipErrorNotFound;
    hipFunction_t made = malloc(sizeof *made + strlen(name) + 1);
    if (!made)
        return hipErrorOutOfMemory;
    made->magic = FUNCTION_MAGIC;
    strcpy(made->name, name);
    *function = made;
    return hipSuccess;
}

hipError_t hipModuleUnload(hipModule_t module) {
    free(module);
    return module ? hipSuccess : hipErrorInvalidHandle;
}

// Compiled programs register their kernels, but launches take any host stub: programs in Python have none.
void **__hipRegisterFatBinary(const void *image) {
    void **modules = malloc(sizeof *modules);
    if (modules)
        *modules = (void *)image;
    return modules;
}

void __hipRegisterFunction(void **modules, const void *hostFunction, char *deviceFunction,
                           const char *deviceName, unsigned threadLimit, void *tid, void *bid, void *blockDim,
                           void *gridDim, int *warpSize) {
    (void)modules, (void)hostFunction, (void)deviceFunction, (void)deviceName, (void)threadLimit, (void)tid;
    (void)bid, (void)blockDim, (void)gridDim, (void)warpSize;
}

void __hipUnregisterFatBinary(void **modules) {
    free(modules);
}
