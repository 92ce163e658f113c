// mixed: what its parts share. Every call has a size of its own.
#pragma once

#include "kernels.h"
#include "truth.h"

// Calls `function`, which counts as `op`, and lists it.
#define RUN(op, function, bytes, stream, pointer, ...)                                                       \
    LISTED(op, #function, bytes, stream, pointer, function(__VA_ARGS__))
#define SAME(function, bytes, stream, pointer, ...)                                                          \
    RUN(function, function, bytes, stream, pointer, __VA_ARGS__)

#define HOST_BYTES (1 << 20)

extern char mixed_host[HOST_BYTES];
extern void *mixed_device, *mixed_other; // as many bytes on the device
extern cudaStream_t mixed_stream;

void mixed_memory(void);
void mixed_copies(void);
void mixed_graphs(void);
void mixed_modules(void);
