// Devices of the stand-in HIP.
#include "../engine/control.h"
#include "../engine/fault.h"
#include "../engine/stream.h"
#include "hip.h"

static __thread int current_device;

hipError_t hipInit(unsigned flags) {
    control_init();
    return flags ? hipErrorInvalidValue : hipSuccess;
}

hipError_t hipGetDeviceCount(int *count) {
    *count = (int)CONTROL(devices);
    return hipSuccess;
}

hipError_t hipSetDevice(int device) {
    if (device < 0 || device >= (int)CONTROL(devices))
        return hipErrorInvalidDevice;
    current_device = device;
    return hipSuccess;
}

hipError_t hipGetDevice(int *device) {
    *device = current_device;
    return hipSuccess;
}

hipError_t hipDeviceSynchronize(void) {
    fault_sync();
    streams_wait_all();
    return hipSuccess;
}
