// MIG: what identifies an instance.
#pragma once

#include "device.h"

// Every GPU instance has one compute instance.
#define MIG_COMPUTE_INSTANCE 0

// The smallest GPU instances have the ids from 7 on.
static inline unsigned mig_gpu_instance(nvmlDevice_t device) {
    return 6 + device->instance;
}
