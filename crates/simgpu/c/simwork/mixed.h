// mixed: what its parts share. Every call has a size of its own, and those of one operation differ in their
// streams.
#pragma once

#include "kernels.h"
#include "truth.h"

// Calls `function`, which counts as `op`, and lists it: with a handle, with two, as a copy.
#define RUN(op, function, bytes_, stream_, pointer_, ...)                                                    \
    RUN_PAIR(op, function, bytes_, stream_, pointer_, 0, __VA_ARGS__)
#define RUN_PAIR(op, function, bytes_, stream_, pointer_, aux_, ...)                                         \
    LISTED(op, #function, function(__VA_ARGS__), .bytes = bytes_, .stream = stream_,                         \
           .pointer = (uint64_t)(pointer_), .aux = (uint64_t)(aux_))
#define SAME(function, bytes, stream, pointer, ...)                                                          \
    RUN(function, function, bytes, stream, pointer, __VA_ARGS__)
#define PAIR(function, bytes, stream, pointer, aux, ...)                                                     \
    RUN_PAIR(function, function, bytes, stream, pointer, aux, __VA_ARGS__)
#define COPY(function, bytes_, stream_, to, from, direction_, ...)                                           \
    LISTED(function, #function, function(__VA_ARGS__), .bytes = bytes_, .stream = stream_,                   \
           .pointer = (uint64_t)(to), .aux = (uint64_t)(from), .direction = direction_)
// With a name, or the path of a file.
#define NAMED(function, pointer_, aux_, name_, ...)                                                          \
    LISTED(function, #function, function(__VA_ARGS__), .pointer = (uint64_t)(pointer_),                      \
           .aux = (uint64_t)(aux_), .name = name_)

#define HOST_BYTES (1 << 20)
#define SHARED_BYTES 0x140

extern char mixed_host[HOST_BYTES];
extern void *mixed_device, *mixed_other; // as many bytes on the device
extern cudaStream_t mixed_stream, mixed_side;
// How every kernel is launched, and the driver's functions that are.
extern const dim3 mixed_grid, mixed_block;
extern CUfunction mixed_function;      // of a module
extern CUfunction mixed_stub_function; // behind the host stub `mixed_stub`
extern const void *mixed_stub;

void mixed_memory(void);
void mixed_copies(void);
void mixed_captures(void);
void mixed_graphs(void);
// Finds mixed_function and mixed_stub_function.
void mixed_functions(void);
void mixed_modules(void);
