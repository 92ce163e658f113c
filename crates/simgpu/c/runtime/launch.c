// Launches of the stand-in runtime: from the host stubs that compiled programs register to the driver's
// functions, which are loaded when first launched, as the real runtime does.
#include <pthread.h>
#include <stdlib.h>

#include "state.h"

#define MAX_KERNELS 4096 // a power of two

struct kernel {
    const void *_Atomic stub; // NULL: a free slot
    const char *name;
    CUfunction _Atomic function; // NULL until first launched
};

static struct kernel kernels[MAX_KERNELS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static CUlibrary library;
// Eight bytes, because tools look at as many.
static const char image[8] = "simgpu";

static void unlock_in_child(void) {
    pthread_mutex_init(&lock, NULL);
}

__attribute__((constructor)) static void watch_forks(void) {
    pthread_atfork(NULL, NULL, unlock_in_child);
}

// The slot of a stub, or the free slot where it belongs; NULL when the table is full.
static struct kernel *find(const void *stub) {
    size_t home = (size_t)(((uintptr_t)stub * 0x9e3779b97f4a7c15u) >> 40);
    for (size_t step = 0; step < MAX_KERNELS; step++) {
        struct kernel *kernel = &kernels[(home + step) % MAX_KERNELS];
        if (kernel->stub == stub || !kernel->stub)
            return kernel;
    }
    return NULL;
}

static CUresult load(struct kernel *kernel) {
    CUresult result = CUDA_SUCCESS;
    CUkernel handle;
    CUfunction function;
    pthread_mutex_lock(&lock);
    if (!library)
        result = cuLibraryLoadData(&library, image, NULL, NULL, 0, NULL, NULL, 0);
    if (result == CUDA_SUCCESS && !kernel->function) {
        result = cuLibraryGetKernel(&handle, library, kernel->name);
        if (result == CUDA_SUCCESS)
            result = cuKernelGetFunction(&function, handle);
        if (result == CUDA_SUCCESS)
            kernel->function = function;
    }
    pthread_mutex_unlock(&lock);
    return result;
}

CUresult runtime_resolve(const void *stub, CUfunction *function) {
    CUresult result = runtime_enter();
    if (result != CUDA_SUCCESS)
        return result;
    struct kernel *kernel = stub ? find(stub) : NULL;
    if (!kernel || !kernel->stub)
        return cudaErrorInvalidDeviceFunction;
    if (__builtin_expect(!kernel->function, 0))
        result = load(kernel);
    *function = kernel->function;
    return result;
}

cudaError_t cudaLaunchKernel(const void *stub, dim3 grid, dim3 block, void **args, size_t sharedBytes,
                             cudaStream_t stream) {
    CUfunction function;
    CUresult result = runtime_resolve(stub, &function);
    if (result == CUDA_SUCCESS)
        result = cuLaunchKernel(function, grid.x, grid.y, grid.z, block.x, block.y, block.z,
                                (unsigned)sharedBytes, stream, args, NULL);
    return runtime_leave(result);
}

cudaError_t cudaLaunchKernel_ptsz(const void *stub, dim3 grid, dim3 block, void **args, size_t sharedBytes,
                                  cudaStream_t stream) {
    CUfunction function;
    CUresult result = runtime_resolve(stub, &function);
    if (result == CUDA_SUCCESS)
        result = cuLaunchKernel_ptsz(function, grid.x, grid.y, grid.z, block.x, block.y, block.z,
                                     (unsigned)sharedBytes, stream, args, NULL);
    return runtime_leave(result);
}

cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t *config, const void *stub, void **args) {
    CUfunction function;
    CUresult result = config ? runtime_resolve(stub, &function) : CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS) {
        CUlaunchConfig driver = {
            .gridDimX = config->gridDim.x,
            .gridDimY = config->gridDim.y,
            .gridDimZ = config->gridDim.z,
            .blockDimX = config->blockDim.x,
            .blockDimY = config->blockDim.y,
            .blockDimZ = config->blockDim.z,
            .sharedMemBytes = (unsigned)config->dynamicSmemBytes,
            .hStream = config->stream,
            .attrs = config->attrs,
            .numAttrs = config->numAttrs,
        };
        result = cuLaunchKernelEx(&driver, function, args, NULL);
    }
    return runtime_leave(result);
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void *arg) {
    return RUNTIME_CALL(cuLaunchHostFunc(stream, function, arg));
}

cudaError_t cudaLaunchHostFunc_ptsz(cudaStream_t stream, cudaHostFn_t function, void *arg) {
    return RUNTIME_CALL(cuLaunchHostFunc_ptsz(stream, function, arg));
}

cudaError_t cudaGetFuncBySymbol(cudaFunction_t *function, const void *stub) {
    return runtime_leave(function ? runtime_resolve(stub, function) : CUDA_ERROR_INVALID_VALUE);
}

// Kernels are functions in the stand-in driver.
cudaError_t cudaGetKernel(cudaKernel_t *kernel, const void *stub) {
    return cudaGetFuncBySymbol((cudaFunction_t *)kernel, stub);
}

void **__cudaRegisterFatBinary(void *fatImage) {
    void **module = malloc(sizeof *module);
    if (module)
        *module = fatImage;
    return module;
}

void __cudaRegisterFunction(void **module, const char *hostFunction, char *deviceFunction,
                            const char *deviceName, int threadLimit, void *tid, void *bid, void *blockDim,
                            void *gridDim, int *warpSize) {
    (void)module, (void)deviceFunction, (void)threadLimit, (void)tid, (void)bid, (void)blockDim,
        (void)gridDim;
    (void)warpSize;
    pthread_mutex_lock(&lock);
    struct kernel *kernel = find(hostFunction);
    if (kernel) {
        kernel->name = deviceName;
        kernel->stub = hostFunction;
    }
    pthread_mutex_unlock(&lock);
}

void __cudaUnregisterFatBinary(void **module) {
    free(module);
}
