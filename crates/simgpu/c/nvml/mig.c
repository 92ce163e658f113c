// MIG: GPUs in several instances, all of one seventh.
#include "mig.h"

#define MULTIPROCESSORS_PER_INSTANCE 16

nvmlReturn_t nvmlDeviceGetMigMode(nvmlDevice_t device, unsigned *current, unsigned *pending) {
    nvmlReturn_t result = device_check_whole(device, current && pending ? current : NULL);
    if (result == NVML_SUCCESS)
        *current = *pending = device_instances() > 0;
    return result;
}

nvmlReturn_t nvmlDeviceGetMaxMigDeviceCount(nvmlDevice_t device, unsigned *count) {
    return device_tell(device, count, MAX_MIG_INSTANCES);
}

nvmlReturn_t nvmlDeviceGetMigDeviceHandleByIndex(nvmlDevice_t device, unsigned index,
                                                 nvmlDevice_t *instance) {
    nvmlReturn_t result = device_check_whole(device, instance);
    if (result != NVML_SUCCESS)
        return result;
    if (index >= MAX_MIG_INSTANCES)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (index >= device_instances())
        return NVML_ERROR_NOT_FOUND;
    *instance = device_get(device->gpu, index + 1);
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetDeviceHandleFromMigDeviceHandle(nvmlDevice_t instance, nvmlDevice_t *device) {
    nvmlReturn_t result = device_check(instance, device);
    if (result == NVML_SUCCESS && !instance->instance)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (result == NVML_SUCCESS)
        *device = device_get(instance->gpu, 0);
    return result;
}

nvmlReturn_t nvmlDeviceIsMigDeviceHandle(nvmlDevice_t device, unsigned *isInstance) {
    nvmlReturn_t result = device_check(device, isInstance);
    if (result == NVML_SUCCESS)
        *isInstance = device->instance != 0;
    return result;
}

static nvmlReturn_t check_instance(nvmlDevice_t instance, const void *out) {
    nvmlReturn_t result = device_check(instance, out);
    return result == NVML_SUCCESS && !instance->instance ? NVML_ERROR_INVALID_ARGUMENT : result;
}

nvmlReturn_t nvmlDeviceGetGpuInstanceId(nvmlDevice_t instance, unsigned *id) {
    nvmlReturn_t result = check_instance(instance, id);
    if (result == NVML_SUCCESS)
        *id = mig_gpu_instance(instance);
    return result;
}

nvmlReturn_t nvmlDeviceGetComputeInstanceId(nvmlDevice_t instance, unsigned *id) {
    nvmlReturn_t result = check_instance(instance, id);
    if (result == NVML_SUCCESS)
        *id = MIG_COMPUTE_INSTANCE;
    return result;
}

nvmlReturn_t nvmlDeviceGetAttributes_v2(nvmlDevice_t instance, nvmlDeviceAttributes_t *attributes) {
    nvmlReturn_t result = check_instance(instance, attributes);
    if (result == NVML_SUCCESS)
        *attributes = (nvmlDeviceAttributes_t){
            .multiprocessorCount = MULTIPROCESSORS_PER_INSTANCE,
            .sharedCopyEngineCount = 1,
            .gpuInstanceSliceCount = 1,
            .computeInstanceSliceCount = 1,
            .memorySizeMB = CONTROL(nvml_memory) / MAX_MIG_INSTANCES >> 20,
        };
    return result;
}
