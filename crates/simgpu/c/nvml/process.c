// Processes on a GPU: at most the one that the control page names, and it only computes.
#include "device.h"
#include "mig.h"

#define NO_INSTANCE 0xffffffffu

static nvmlReturn_t make_room(nvmlDevice_t device, unsigned *count, const void *out, bool computes) {
    nvmlReturn_t result = device_check(device, count);
    if (result != NVML_SUCCESS)
        return result;
    unsigned room = *count;
    *count = computes && CONTROL(nvml_pid) != 0;
    if (*count > room)
        return NVML_ERROR_INSUFFICIENT_SIZE;
    return *count && !out ? NVML_ERROR_INVALID_ARGUMENT : NVML_SUCCESS;
}

static nvmlReturn_t tell_first(PROCESS_ARGUMENTS(nvmlProcessInfo_v1_t), bool computes) {
    nvmlReturn_t result = make_room(device, count, processes, computes);
    if (result == NVML_SUCCESS && *count)
        processes[0] = (nvmlProcessInfo_v1_t){
            .pid = (unsigned)CONTROL(nvml_pid),
            .usedGpuMemory = CONTROL(nvml_pid_memory),
        };
    return result;
}

static nvmlReturn_t tell(PROCESS_ARGUMENTS(nvmlProcessInfo_t), bool computes) {
    nvmlReturn_t result = make_room(device, count, processes, computes);
    if (result == NVML_SUCCESS && *count)
        processes[0] = (nvmlProcessInfo_t){
            .pid = (unsigned)CONTROL(nvml_pid),
            .usedGpuMemory = CONTROL(nvml_pid_memory),
            .gpuInstanceId = device->instance ? mig_gpu_instance(device) : NO_INSTANCE,
            .computeInstanceId = device->instance ? MIG_COMPUTE_INSTANCE : NO_INSTANCE,
        };
    return result;
}

nvmlReturn_t nvmlDeviceGetComputeRunningProcesses(PROCESS_ARGUMENTS(nvmlProcessInfo_v1_t)) {
    return tell_first(device, count, processes, true);
}

nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v2(PROCESS_ARGUMENTS(nvmlProcessInfo_t)) {
    return tell(device, count, processes, true);
}

nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v3(PROCESS_ARGUMENTS(nvmlProcessInfo_t)) {
    return tell(device, count, processes, true);
}

nvmlReturn_t nvmlDeviceGetGraphicsRunningProcesses(PROCESS_ARGUMENTS(nvmlProcessInfo_v1_t)) {
    return tell_first(device, count, processes, false);
}

nvmlReturn_t nvmlDeviceGetGraphicsRunningProcesses_v2(PROCESS_ARGUMENTS(nvmlProcessInfo_t)) {
    return tell(device, count, processes, false);
}

nvmlReturn_t nvmlDeviceGetGraphicsRunningProcesses_v3(PROCESS_ARGUMENTS(nvmlProcessInfo_t)) {
    return tell(device, count, processes, false);
}
