// Events: the only one that ever happens is an Xid, when the control page names a new one.
#include <stdlib.h>

#include "../engine/clock.h"
#include "device.h"

// How long to wait before looking for an Xid whose writer does not wake anybody.
#define POLL_NS 10000000
#define NO_INSTANCE 0xffffffffu

enum { EVENT_CORRECTED = 1, EVENT_UNCORRECTED = 2, EVENT_XID = 8 };

struct nvmlEventSet_st {
    nvmlDevice_t device; // the first that was registered for Xids
    uint64_t seen;       // the last Xid that was looked at
};

nvmlReturn_t nvmlDeviceGetSupportedEventTypes(nvmlDevice_t device, uint64_t *types) {
    return device_tell_long(device, types, EVENT_CORRECTED | EVENT_UNCORRECTED | EVENT_XID);
}

nvmlReturn_t nvmlEventSetCreate(nvmlEventSet_t *set) {
    if (!nvml_is_initialized())
        return NVML_ERROR_UNINITIALIZED;
    if (!set)
        return NVML_ERROR_INVALID_ARGUMENT;
    *set = calloc(1, sizeof **set);
    return *set ? NVML_SUCCESS : NVML_ERROR_MEMORY;
}

nvmlReturn_t nvmlDeviceRegisterEvents(nvmlDevice_t device, uint64_t types, nvmlEventSet_t set) {
    nvmlReturn_t result = device_check_whole(device, set);
    if (result == NVML_SUCCESS && types & ~(uint64_t)(EVENT_CORRECTED | EVENT_UNCORRECTED | EVENT_XID))
        return NVML_ERROR_NOT_SUPPORTED;
    if (result == NVML_SUCCESS && types & EVENT_XID && !set->device)
        set->device = device;
    return result;
}

static nvmlReturn_t wait_for_event(nvmlEventSet_t set, nvmlEventData_t *event, unsigned milliseconds) {
    if (!nvml_is_initialized())
        return NVML_ERROR_UNINITIALIZED;
    if (!set || !event)
        return NVML_ERROR_INVALID_ARGUMENT;
    uint64_t deadline = now_ns() + milliseconds * 1000000ull;
    for (;;) {
        uint64_t xid = CONTROL(nvml_xid), now = now_ns();
        bool is_new = xid && xid != set->seen && set->device;
        set->seen = xid;
        if (is_new) {
            *event = (nvmlEventData_t){.device = set->device,
                                       .eventType = EVENT_XID,
                                       .eventData = xid,
                                       .gpuInstanceId = NO_INSTANCE,
                                       .computeInstanceId = NO_INSTANCE};
            return NVML_SUCCESS;
        }
        if (now >= deadline)
            return NVML_ERROR_TIMEOUT;
        _Atomic uint32_t *low_half = (_Atomic uint32_t *)&control_page[CONTROL_nvml_xid].value;
        futex_wait(low_half, *low_half, now + POLL_NS < deadline ? now + POLL_NS : deadline);
    }
}

nvmlReturn_t nvmlEventSetWait(nvmlEventSet_t set, nvmlEventData_t *event, unsigned milliseconds) {
    return wait_for_event(set, event, milliseconds);
}

nvmlReturn_t nvmlEventSetWait_v2(nvmlEventSet_t set, nvmlEventData_t *event, unsigned milliseconds) {
    return wait_for_event(set, event, milliseconds);
}

nvmlReturn_t nvmlEventSetFree(nvmlEventSet_t set) {
    free(set);
    return set ? NVML_SUCCESS : NVML_ERROR_INVALID_ARGUMENT;
}
