// Which devices there are, and what they are called.
#include "device.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#define MAX_GPUS 16

static struct nvmlDevice_st devices[MAX_GPUS][1 + MAX_MIG_INSTANCES];

unsigned device_count(void) {
    uint64_t count = CONTROL(devices);
    return count < MAX_GPUS ? (unsigned)count : MAX_GPUS;
}

unsigned device_instances(void) {
    uint64_t count = CONTROL(nvml_mig);
    return count < MAX_MIG_INSTANCES ? (unsigned)count : MAX_MIG_INSTANCES;
}

nvmlDevice_t device_get(unsigned gpu, unsigned instance) {
    devices[gpu][instance] = (struct nvmlDevice_st){.gpu = gpu, .instance = instance};
    return &devices[gpu][instance];
}

nvmlReturn_t device_check(nvmlDevice_t device, const void *out) {
    if (!nvml_is_initialized())
        return NVML_ERROR_UNINITIALIZED;
    bool is_one = device >= &devices[0][0] && device < &devices[MAX_GPUS][0];
    return is_one && out ? NVML_SUCCESS : NVML_ERROR_INVALID_ARGUMENT;
}

nvmlReturn_t device_check_whole(nvmlDevice_t device, const void *out) {
    nvmlReturn_t result = device_check(device, out);
    return result == NVML_SUCCESS && device->instance ? NVML_ERROR_NOT_SUPPORTED : result;
}

static nvmlReturn_t tell_count(unsigned *count) {
    if (!nvml_is_initialized())
        return NVML_ERROR_UNINITIALIZED;
    if (!count)
        return NVML_ERROR_INVALID_ARGUMENT;
    *count = device_count();
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetCount(unsigned *count) {
    return tell_count(count);
}

nvmlReturn_t nvmlDeviceGetCount_v2(unsigned *count) {
    return tell_count(count);
}

static nvmlReturn_t find_index(unsigned index, nvmlDevice_t *device) {
    if (!nvml_is_initialized())
        return NVML_ERROR_UNINITIALIZED;
    if (!device || index >= device_count())
        return NVML_ERROR_INVALID_ARGUMENT;
    *device = device_get(index, 0);
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetHandleByIndex(unsigned index, nvmlDevice_t *device) {
    return find_index(index, device);
}

nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned index, nvmlDevice_t *device) {
    return find_index(index, device);
}

// Instances count from 1, so that a GPU and its instances never share an id.
static void write_uuid(char uuid[48], unsigned gpu, unsigned instance) {
    snprintf(uuid, 48, "%s-51319b00-0000-4000-8000-0000%04x%04x", instance ? "MIG" : "GPU", instance, gpu);
}

static void write_bus_id(char bus_id[32], unsigned gpu) {
    snprintf(bus_id, 32, "00000000:%02X:00.0", 0x10 + gpu);
}

nvmlReturn_t nvmlDeviceGetHandleByUUID(const char *uuid, nvmlDevice_t *device) {
    if (!nvml_is_initialized())
        return NVML_ERROR_UNINITIALIZED;
    if (!uuid || !device)
        return NVML_ERROR_INVALID_ARGUMENT;
    for (unsigned gpu = 0; gpu < device_count(); gpu++) {
        for (unsigned instance = 0; instance <= device_instances(); instance++) {
            char own[48];
            write_uuid(own, gpu, instance);
            if (strcmp(own, uuid) == 0) {
                *device = device_get(gpu, instance);
                return NVML_SUCCESS;
            }
        }
    }
    return NVML_ERROR_NOT_FOUND;
}

nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const char *busId, nvmlDevice_t *device) {
    if (!nvml_is_initialized())
        return NVML_ERROR_UNINITIALIZED;
    if (!busId || !device)
        return NVML_ERROR_INVALID_ARGUMENT;
    for (unsigned gpu = 0; gpu < device_count(); gpu++) {
        char own[32];
        write_bus_id(own, gpu);
        // The domain may have four digits or eight.
        if (strcasecmp(own, busId) == 0 || strcasecmp(own + 4, busId) == 0) {
            *device = device_get(gpu, 0);
            return NVML_SUCCESS;
        }
    }
    return NVML_ERROR_NOT_FOUND;
}

static nvmlReturn_t tell_text(nvmlDevice_t device, char *out, unsigned length, const char *text) {
    nvmlReturn_t result = device_check(device, out);
    if (result == NVML_SUCCESS && length <= strlen(text))
        result = NVML_ERROR_INSUFFICIENT_SIZE;
    if (result == NVML_SUCCESS)
        strcpy(out, text);
    return result;
}

nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t device, char *name, unsigned length) {
    char text[64];
    nvmlReturn_t result = device_check(device, name);
    if (result != NVML_SUCCESS)
        return result;
    snprintf(text, sizeof text, "Simulated GPU %u%s", device->gpu, device->instance ? " MIG 1g" : "");
    return tell_text(device, name, length, text);
}

nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char *uuid, unsigned length) {
    char text[48];
    nvmlReturn_t result = device_check(device, uuid);
    if (result != NVML_SUCCESS)
        return result;
    write_uuid(text, device->gpu, device->instance);
    return tell_text(device, uuid, length, text);
}

nvmlReturn_t nvmlDeviceGetIndex(nvmlDevice_t device, unsigned *index) {
    nvmlReturn_t result = device_check(device, index);
    if (result == NVML_SUCCESS)
        *index = device->instance ? device->instance - 1 : device->gpu;
    return result;
}

nvmlReturn_t nvmlDeviceGetMinorNumber(nvmlDevice_t device, unsigned *number) {
    nvmlReturn_t result = device_check_whole(device, number);
    if (result == NVML_SUCCESS)
        *number = device->gpu;
    return result;
}

nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, nvmlPciInfo_t *pci) {
    nvmlReturn_t result = device_check(device, pci);
    if (result != NVML_SUCCESS)
        return result;
    *pci =
        (nvmlPciInfo_t){.bus = 0x10 + device->gpu, .pciDeviceId = 0x233510de, .pciSubSystemId = 0x18be10de};
    write_bus_id(pci->busId, device->gpu);
    snprintf(pci->busIdLegacy, sizeof pci->busIdLegacy, "%s", pci->busId + 4);
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetCudaComputeCapability(nvmlDevice_t device, int *major, int *minor) {
    nvmlReturn_t result = device_check(device, major && minor ? major : NULL);
    if (result == NVML_SUCCESS) {
        *major = 9;
        *minor = 0;
    }
    return result;
}
