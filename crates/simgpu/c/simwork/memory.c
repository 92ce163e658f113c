// memory: allocates in every way, and frees half of it; or leaks, or fills the device. Bytes are those asked
// for: what a call rounds them up to, nobody sees.
#include <inttypes.h>
#include <stdlib.h>

#include "../engine/clock.h"
#include "commands.h"
#include "gate.h"
#include "kernels.h"
#include "options.h"
#include "truth.h"

static uint64_t rounds = 4, bytes = 1 << 20;
static bool leaks, fills, holds;

static cudaStream_t stream;
static cudaMemPool_t pool;

// ---- what lives

enum kind { DEVICE, MANAGED, HOST, REGISTERED, KINDS };
static const char *const kind_names[KINDS] = {"device", "managed", "host", "registered"};
static uint64_t live[KINDS], peak[KINDS];

static void born(enum kind kind, uint64_t size) {
    live[kind] += size;
    peak[kind] = live[kind] > peak[kind] ? live[kind] : peak[kind];
}

static void died(enum kind kind, uint64_t size) {
    live[kind] -= size;
}

static void tell(const char *name, const uint64_t counts[KINDS]) {
    fprintf(truth_more(), ",\"%s\":{", name);
    for (int kind = 0; kind < KINDS; kind++)
        fprintf(truth_more(), "%s\"%s\":%" PRIu64, kind ? "," : "", kind_names[kind], counts[kind]);
    fprintf(truth_more(), "}");
}

// Every allocation has a size of its own.
static uint64_t next_size(void) {
    static uint64_t count;
    return 0x10000 + 0x1000 * ++count;
}

// ---- the ways to allocate

// Allocates `size` bytes of `kind`; frees them again unless they are to stay.
#define BLOCK(kind, stays, allocate, release)                                                                \
    do {                                                                                                     \
        if ((allocate) != 0)                                                                                 \
            options_refuse("memory: the device is full");                                                    \
        born(kind, size);                                                                                    \
        if (!(stays)) {                                                                                      \
            release;                                                                                         \
            died(kind, size);                                                                                \
        }                                                                                                    \
    } while (0)

static void runtime_blocks(bool stays) {
    void *pointer;
    cudaPitchedPtr pitched;
    cudaArray_t array;
    size_t pitch, size = next_size();
    const cudaChannelFormatDesc floats = {.x = 32, .f = cudaChannelFormatKindFloat};
    BLOCK(DEVICE, stays, CALL(cudaMalloc, &pointer, size), CALL(cudaFree, pointer));
    size = next_size();
    BLOCK(DEVICE, stays, CALL(cudaMallocAsync, &pointer, size, stream), CALL(cudaFreeAsync, pointer, stream));
    size = next_size();
    BLOCK(DEVICE, stays, CALL(cudaMallocFromPoolAsync, &pointer, size, pool, stream),
          CALL(cudaFreeAsync, pointer, stream));
    size = next_size();
    BLOCK(DEVICE, stays, CALL(cudaMallocPitch, &pointer, &pitch, 1024, size / 1024), CALL(cudaFree, pointer));
    size = next_size();
    BLOCK(DEVICE, stays, CALL(cudaMalloc3D, &pitched, (cudaExtent){512, 2, size / 1024}),
          CALL(cudaFree, pitched.ptr));
    size = next_size();
    BLOCK(DEVICE, stays, CALL(cudaMallocArray, &array, &floats, 256, size / 1024, 0),
          CALL(cudaFreeArray, array));
    size = next_size();
    BLOCK(MANAGED, stays, CALL(cudaMallocManaged, &pointer, size, 1), CALL(cudaFree, pointer));
    size = next_size();
    BLOCK(HOST, stays, CALL(cudaMallocHost, &pointer, size), CALL(cudaFreeHost, pointer));
    size = next_size();
    BLOCK(HOST, stays, CALL(cudaHostAlloc, &pointer, size, 0), CALL(cudaFreeHost, pointer));
    size = next_size();
    pointer = malloc(size);
    BLOCK(REGISTERED, stays, CALL(cudaHostRegister, pointer, size, 0), CALL(cudaHostUnregister, pointer));
}

static void driver_blocks(bool stays) {
    CUdeviceptr pointer;
    void *host;
    size_t size = next_size();
    BLOCK(DEVICE, stays, CALL(cuMemAlloc_v2, &pointer, size), CALL(cuMemFree_v2, pointer));
    size = next_size();
    BLOCK(DEVICE, stays, CALL(cuMemAllocAsync, &pointer, size, stream),
          CALL(cuMemFreeAsync, pointer, stream));
    size = next_size();
    BLOCK(MANAGED, stays, CALL(cuMemAllocManaged, &pointer, size, 1), CALL(cuMemFree_v2, pointer));
    size = next_size();
    BLOCK(HOST, stays, CALL(cuMemAllocHost_v2, &host, size), CALL(cuMemFreeHost, host));
    size = next_size();
    host = malloc(size);
    BLOCK(REGISTERED, stays, CALL(cuMemHostRegister_v2, host, size, 0), CALL(cuMemHostUnregister, host));
}

// Physical memory lives until its handle is released and it is mapped nowhere, in whichever order.
static void mapped_block(bool unmaps_first, bool releases, bool unmaps) {
    CUmemGenericAllocationHandle handle;
    CUdeviceptr pointer;
    size_t size = next_size();
    CALL(cuMemAddressReserve, &pointer, size, 0, 0, 0);
    CALL(cuMemCreate, &handle, size, NULL, 0);
    born(DEVICE, size);
    CALL(cuMemMap, pointer, size, 0, handle, 0);
    if (unmaps && unmaps_first)
        CALL(cuMemUnmap, pointer, size);
    if (releases)
        CALL(cuMemRelease, handle);
    if (unmaps && !unmaps_first)
        CALL(cuMemUnmap, pointer, size);
    if (releases && unmaps)
        died(DEVICE, size);
}

static void mapped_blocks(void) {
    mapped_block(true, true, true);
    mapped_block(false, true, true);
    mapped_block(false, false, false);
    mapped_block(false, true, false); // still mapped
    mapped_block(true, false, true);  // still held
}

static void allocate_in_every_way(void) {
    CALL(cudaStreamCreate, &stream);
    cudaDeviceGetDefaultMemPool(&pool, 0);
    for (uint64_t round = 0; round < rounds && !gate_is_stopped(); round++) {
        for (int stays = 0; stays < 2; stays++) {
            runtime_blocks(stays);
            driver_blocks(stays);
        }
        mapped_blocks();
    }
    void *pointer;
    size_t size = 8 << 20;
    BLOCK(DEVICE, false, CALL(cudaMalloc, &pointer, size), CALL(cudaFree, pointer));
    CALL(cudaStreamSynchronize, stream);
}

// Not inlined, and not static: a name for stacks.
__attribute__((noinline)) int memory_leak(void) {
    void *pointer;
    int error = CALL(cudaMalloc, &pointer, bytes);
    if (!error)
        born(DEVICE, bytes);
    return error;
}

int command_memory(char **arguments) {
    const struct option options[] = {
        NUMBER("rounds", rounds, "how often everything is allocated, twice in every way"),
        FLAG("leak", leaks, "instead allocate every 10 ms, until stopped"),
        FLAG("oom", fills, "instead allocate until the device is full"),
        NUMBER("bytes", bytes, "bytes of each allocation that leaks or fills the device"),
        FLAG("hold", holds, "in the end keep everything until stopped"),
        END,
    };
    options_parse("memory", "every kind of memory, half of it freed; or a leak", arguments, options);
    workload_begin();
    int error = 0;
    if (fills) {
        while (!error && !gate_is_stopped())
            error = memory_leak();
    } else if (leaks) {
        while (!error && !gate_is_stopped()) {
            error = memory_leak();
            sleep_ns(10000000);
        }
    } else {
        allocate_in_every_way();
    }
    tell("live", live);
    tell("peak", peak);
    size_t free_bytes, total_bytes;
    cudaMemGetInfo(&free_bytes, &total_bytes);
    fprintf(truth_more(), ",\"error\":%d,\"used_bytes\":%zu", error, total_bytes - free_bytes);
    while (holds && !gate_is_stopped())
        sleep_ns(10000000);
    truth_print("memory");
    return 0;
}
