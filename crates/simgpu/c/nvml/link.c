// Links of a GPU: PCIe and NVLink.
#include "link.h"

#include "device.h"

nvmlReturn_t nvmlDeviceGetPcieThroughput(nvmlDevice_t device, int direction, unsigned *kilobytes) {
    if (direction < 0 || direction > 1)
        return NVML_ERROR_INVALID_ARGUMENT;
    return device_tell(device, kilobytes, direction ? CONTROL(nvml_pcie_rx_kb) : CONTROL(nvml_pcie_tx_kb));
}

nvmlReturn_t nvmlDeviceGetCurrPcieLinkGeneration(nvmlDevice_t device, unsigned *generation) {
    return device_tell(device, generation, CONTROL(nvml_pcie_gen));
}

nvmlReturn_t nvmlDeviceGetCurrPcieLinkWidth(nvmlDevice_t device, unsigned *lanes) {
    return device_tell(device, lanes, CONTROL(nvml_pcie_width));
}

nvmlReturn_t nvmlDeviceGetMaxPcieLinkGeneration(nvmlDevice_t device, unsigned *generation) {
    return device_tell(device, generation, PCIE_GENERATION);
}

nvmlReturn_t nvmlDeviceGetMaxPcieLinkWidth(nvmlDevice_t device, unsigned *lanes) {
    return device_tell(device, lanes, PCIE_WIDTH);
}

nvmlReturn_t nvmlDeviceGetPcieReplayCounter(nvmlDevice_t device, unsigned *count) {
    return device_tell(device, count, CONTROL(nvml_pcie_replays));
}

nvmlReturn_t nvmlDeviceGetNvLinkState(nvmlDevice_t device, unsigned link, int *isActive) {
    if (link >= NVLINKS)
        return NVML_ERROR_INVALID_ARGUMENT;
    return device_tell(device, (unsigned *)isActive, link < CONTROL(nvml_nvlinks));
}

nvmlReturn_t nvmlDeviceGetNvLinkVersion(nvmlDevice_t device, unsigned link, unsigned *version) {
    return link < NVLINKS ? device_tell(device, version, NVLINK_VERSION) : NVML_ERROR_INVALID_ARGUMENT;
}

nvmlReturn_t nvmlDeviceGetNvLinkErrorCounter(nvmlDevice_t device, unsigned link, int counter,
                                             uint64_t *count) {
    enum { COUNTERS = 5 };
    if (link >= NVLINKS || counter < 0 || counter >= COUNTERS)
        return NVML_ERROR_INVALID_ARGUMENT;
    return device_tell_long(device, count, link == 0 ? CONTROL(nvml_nvlink_errors) : 0);
}
