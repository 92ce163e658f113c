// Devices of the stand-in NVML, as its parts see them: GPUs, and MIG instances of GPUs.
#pragma once

#include <stdbool.h>

#include "../engine/control.h"
#include "nvml.h"

#define MAX_MIG_INSTANCES 7

struct nvmlDevice_st {
    unsigned gpu;
    unsigned instance; // of MIG, from 1; zero: the whole GPU
};

// Whether the library may be used now.
bool nvml_is_initialized(void);
// Nanoseconds since the library was first initialised, for counters that grow with time.
uint64_t nvml_elapsed_ns(void);

nvmlDevice_t device_get(unsigned gpu, unsigned instance);
unsigned device_count(void);
unsigned device_instances(void);

// NVML_SUCCESS when `device` is one, and `out` somewhere to write to.
nvmlReturn_t device_check(nvmlDevice_t device, const void *out);
// The same for what only whole GPUs have.
nvmlReturn_t device_check_whole(nvmlDevice_t device, const void *out);

static inline nvmlReturn_t device_tell(nvmlDevice_t device, unsigned *out, uint64_t value) {
    nvmlReturn_t result = device_check_whole(device, out);
    if (result == NVML_SUCCESS)
        *out = (unsigned)value;
    return result;
}

static inline nvmlReturn_t device_tell_long(nvmlDevice_t device, uint64_t *out, uint64_t value) {
    nvmlReturn_t result = device_check_whole(device, out);
    if (result == NVML_SUCCESS)
        *out = value;
    return result;
}
