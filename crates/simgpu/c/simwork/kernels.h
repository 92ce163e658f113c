// The kernels that workloads launch: registered as compiled CUDA programs register theirs, and launched by
// one of the ways a program has.
#pragma once

#include "../runtime/cuda_runtime.h"

enum kernel { KERNEL_MATMUL, KERNEL_SOFTMAX, KERNEL_ADAMW, KERNEL_COUNT };
enum via { VIA_RUNTIME, VIA_DRIVER, VIA_EX };

// Registers the kernels and initialises the runtime: nothing that a tool counts.
void kernels_register(void);
// For launches through the driver: loads a module and finds the functions in it.
void kernels_load_module(void);

// The way called `name`; refuses other names.
enum via kernels_via(const char *name);

// Launches and does not count: hot loops count once, at their end, with kernels_count.
int kernels_launch(enum via via, enum kernel kernel, cudaStream_t stream);
void kernels_count(enum via via, uint64_t launches);
// Notes that the runtime loads `kernel` in its first launch.
void kernels_first_use(enum via via, enum kernel kernel);

// The mangled name.
const char *kernels_name(enum kernel kernel);
const void *kernels_stub(enum kernel kernel);
CUfunction kernels_function(enum kernel kernel);
