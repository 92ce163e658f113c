// hip-mixed: what its parts share, in the manner of mixed.
#pragma once

#include "../hip/hip.h"
#include "truth.h"

#define OP(name) __typeof__(name) *name;
extern struct hip {
#include "hip_ops.def"
} hip;
#undef OP

// Calls a function and lists it: with a handle, with two, as a copy, with a name or the path of a file.
#define SAME(function, bytes, stream, pointer, ...) PAIR(function, bytes, stream, pointer, 0, __VA_ARGS__)
#define PAIR(function, bytes_, stream_, pointer_, aux_, ...)                                                 \
    LISTED(function, #function, hip.function(__VA_ARGS__), .bytes = bytes_, .stream = stream_,               \
           .pointer = (uint64_t)(pointer_), .aux = (uint64_t)(aux_))
#define COPY(function, bytes_, stream_, to, from, direction_, ...)                                           \
    LISTED(function, #function, hip.function(__VA_ARGS__), .bytes = bytes_, .stream = stream_,               \
           .pointer = (uint64_t)(to), .aux = (uint64_t)(from), .direction = direction_)
#define NAMED(function, pointer_, aux_, name_, ...)                                                          \
    LISTED(function, #function, hip.function(__VA_ARGS__), .pointer = (uint64_t)(pointer_),                  \
           .aux = (uint64_t)(aux_), .name = name_)

#define HOST_BYTES (1 << 20)
#define SHARED_BYTES 0x140

extern char hip_host[HOST_BYTES];
extern void *hip_device, *hip_other; // as many bytes on the device
extern hipStream_t hip_stream, hip_side;
// How every kernel is launched, and the host stub that some launches take.
extern const dim3 hip_grid, hip_block;
extern const void *hip_stub;

void hip_memory(void);
void hip_copies(void);
void hip_graphs(void);
