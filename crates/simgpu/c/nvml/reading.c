// What a GPU does: load, memory, power, temperature, clocks, memory errors.
#include "device.h"

#define VERSION_OF(type, version) (unsigned)(sizeof(type) | (version) << 24)

enum { CLOCK_GRAPHICS, CLOCK_SM, CLOCK_MEMORY, CLOCK_VIDEO, CLOCK_COUNT };

nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t device, nvmlUtilization_t *rates) {
    nvmlReturn_t result = device_check_whole(device, rates);
    // With MIG there is no such number, for the GPU as little as for its instances.
    if (result == NVML_SUCCESS && device_instances())
        return NVML_ERROR_NOT_SUPPORTED;
    if (result == NVML_SUCCESS)
        *rates = (nvmlUtilization_t){.gpu = (unsigned)CONTROL(nvml_sm_pct),
                                     .memory = (unsigned)CONTROL(nvml_memory_pct)};
    return result;
}

// Instances share the memory of the GPU, and its use, evenly.
static nvmlMemory_t memory_of(nvmlDevice_t device) {
    uint64_t total = CONTROL(nvml_memory), used = CONTROL(nvml_memory_used);
    if (device->instance) {
        total /= MAX_MIG_INSTANCES;
        used /= device_instances() ? device_instances() : 1;
    }
    used = used < total ? used : total;
    return (nvmlMemory_t){.total = total, .free = total - used, .used = used};
}

nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *memory) {
    nvmlReturn_t result = device_check(device, memory);
    if (result == NVML_SUCCESS)
        *memory = memory_of(device);
    return result;
}

nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, nvmlMemory_v2_t *memory) {
    nvmlReturn_t result = device_check(device, memory);
    if (result != NVML_SUCCESS)
        return result;
    if (memory->version != VERSION_OF(nvmlMemory_v2_t, 2))
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    nvmlMemory_t first = memory_of(device);
    memory->total = first.total;
    memory->reserved = 0;
    memory->free = first.free;
    memory->used = first.used;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetPowerUsage(nvmlDevice_t device, unsigned *milliwatts) {
    return device_tell(device, milliwatts, CONTROL(nvml_power_mw));
}

nvmlReturn_t nvmlDeviceGetEnforcedPowerLimit(nvmlDevice_t device, unsigned *milliwatts) {
    return device_tell(device, milliwatts, CONTROL(nvml_power_limit_mw));
}

nvmlReturn_t nvmlDeviceGetPowerManagementLimit(nvmlDevice_t device, unsigned *milliwatts) {
    return device_tell(device, milliwatts, CONTROL(nvml_power_limit_mw));
}

nvmlReturn_t nvmlDeviceGetTotalEnergyConsumption(nvmlDevice_t device, uint64_t *millijoules) {
    return device_tell_long(device, millijoules, nvml_elapsed_ns() / 1000000 * CONTROL(nvml_power_mw) / 1000);
}

nvmlReturn_t nvmlDeviceGetTemperature(nvmlDevice_t device, int sensor, unsigned *degrees) {
    return sensor ? NVML_ERROR_INVALID_ARGUMENT : device_tell(device, degrees, CONTROL(nvml_temperature));
}

static uint64_t clock_of(int type, bool highest) {
    if (type == CLOCK_MEMORY)
        return CONTROL(nvml_memory_clock);
    return highest ? CONTROL(nvml_sm_clock_max) : CONTROL(nvml_sm_clock);
}

static nvmlReturn_t tell_clock(nvmlDevice_t device, int type, bool highest, unsigned *mhz) {
    if (type < 0 || type >= CLOCK_COUNT)
        return NVML_ERROR_INVALID_ARGUMENT;
    return device_tell(device, mhz, clock_of(type, highest));
}

nvmlReturn_t nvmlDeviceGetClockInfo(nvmlDevice_t device, int type, unsigned *mhz) {
    return tell_clock(device, type, false, mhz);
}

nvmlReturn_t nvmlDeviceGetClock(nvmlDevice_t device, int type, int which, unsigned *mhz) {
    return tell_clock(device, type, which != 0, mhz);
}

nvmlReturn_t nvmlDeviceGetMaxClockInfo(nvmlDevice_t device, int type, unsigned *mhz) {
    return tell_clock(device, type, true, mhz);
}

nvmlReturn_t nvmlDeviceGetPerformanceState(nvmlDevice_t device, int *state) {
    return device_tell(device, (unsigned *)state, 0);
}

nvmlReturn_t nvmlDeviceGetCurrentClocksThrottleReasons(nvmlDevice_t device, uint64_t *reasons) {
    return device_tell_long(device, reasons, CONTROL(nvml_throttle));
}

nvmlReturn_t nvmlDeviceGetCurrentClocksEventReasons(nvmlDevice_t device, uint64_t *reasons) {
    return device_tell_long(device, reasons, CONTROL(nvml_throttle));
}

nvmlReturn_t nvmlDeviceGetEccMode(nvmlDevice_t device, int *current, int *pending) {
    nvmlReturn_t result = device_check_whole(device, current && pending ? current : NULL);
    if (result == NVML_SUCCESS)
        *current = *pending = 1;
    return result;
}

nvmlReturn_t nvmlDeviceGetTotalEccErrors(nvmlDevice_t device, int type, int period, uint64_t *count) {
    if (type < 0 || type > 1 || period < 0 || period > 1)
        return NVML_ERROR_INVALID_ARGUMENT;
    return device_tell_long(device, count,
                            type ? CONTROL(nvml_ecc_uncorrected) : CONTROL(nvml_ecc_corrected));
}
