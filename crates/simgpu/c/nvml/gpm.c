// GPM: performance metrics between two samples. A sample holds what the control page said when it was taken.
#include <stdlib.h>

#include "device.h"
#include "mig.h"

#define SUPPORT_VERSION 1
#define METRICS_VERSION 1

static const struct metric {
    unsigned id;
    const char *short_name, *long_name, *unit;
    enum control_field field;
    double scale;
} metrics[] = {
    {1, "grUtil", "Graphics Util", "%", CONTROL_nvml_sm_pct, 1},
    {2, "smUtil", "SM Util", "%", CONTROL_nvml_sm_active_pct, 1},
    {3, "smOcc", "SM Occupancy", "%", CONTROL_nvml_occupancy_pct, 1},
    {5, "tenUtil", "Tensor Util", "%", CONTROL_nvml_tensor_pct, 1},
    {7, "hmmaUtil", "HMMA Util", "%", CONTROL_nvml_tensor_pct, 1},
    {10, "dramBw", "DRAM BW Util", "%", CONTROL_nvml_dram_pct, 1},
    {20, "pcieTx", "PCIe TX", "MiB/s", CONTROL_nvml_pcie_tx_kb, 1.0 / 1024},
    {21, "pcieRx", "PCIe RX", "MiB/s", CONTROL_nvml_pcie_rx_kb, 1.0 / 1024},
    {60, "nvlRx", "NVLink RX", "MiB/s", CONTROL_nvml_nvlink_kb, 1.0 / 1024},
    {61, "nvlTx", "NVLink TX", "MiB/s", CONTROL_nvml_nvlink_kb, 1.0 / 1024},
};

enum { METRICS = sizeof metrics / sizeof *metrics };

struct nvmlGpmSample_st {
    bool taken;
    uint64_t values[METRICS];
};

nvmlReturn_t nvmlGpmQueryDeviceSupport(nvmlDevice_t device, nvmlGpmSupport_t *support) {
    nvmlReturn_t result = device_check(device, support);
    if (result == NVML_SUCCESS && support->version != SUPPORT_VERSION)
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    if (result == NVML_SUCCESS)
        support->isSupportedDevice = CONTROL(nvml_gpm) != 0;
    return result;
}

nvmlReturn_t nvmlGpmSampleAlloc(nvmlGpmSample_t *sample) {
    if (!nvml_is_initialized())
        return NVML_ERROR_UNINITIALIZED;
    if (!sample)
        return NVML_ERROR_INVALID_ARGUMENT;
    *sample = calloc(1, sizeof **sample);
    return *sample ? NVML_SUCCESS : NVML_ERROR_MEMORY;
}

nvmlReturn_t nvmlGpmSampleFree(nvmlGpmSample_t sample) {
    free(sample);
    return sample ? NVML_SUCCESS : NVML_ERROR_INVALID_ARGUMENT;
}

static nvmlReturn_t take(nvmlDevice_t device, nvmlGpmSample_t sample) {
    nvmlReturn_t result = device_check_whole(device, sample);
    if (result != NVML_SUCCESS)
        return result;
    if (!CONTROL(nvml_gpm))
        return NVML_ERROR_NOT_SUPPORTED;
    sample->taken = true;
    for (int at = 0; at < METRICS; at++)
        sample->values[at] = control_get(metrics[at].field);
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlGpmSampleGet(nvmlDevice_t device, nvmlGpmSample_t sample) {
    return take(device, sample);
}

nvmlReturn_t nvmlGpmMigSampleGet(nvmlDevice_t device, unsigned gpuInstance, nvmlGpmSample_t sample) {
    unsigned first = mig_gpu_instance(&(struct nvmlDevice_st){.instance = 1});
    if (gpuInstance < first || gpuInstance >= first + device_instances())
        return NVML_ERROR_INVALID_ARGUMENT;
    return take(device, sample);
}

static void compute(nvmlGpmMetric_t *asked, nvmlGpmSample_t sample) {
    asked->nvmlReturn = NVML_ERROR_NOT_SUPPORTED;
    for (int at = 0; at < METRICS; at++) {
        const struct metric *metric = &metrics[at];
        if (metric->id != asked->metricId)
            continue;
        asked->nvmlReturn = NVML_SUCCESS;
        asked->value = (double)sample->values[at] * metric->scale;
        asked->metricInfo.shortName = metric->short_name;
        asked->metricInfo.longName = metric->long_name;
        asked->metricInfo.unit = metric->unit;
    }
}

nvmlReturn_t nvmlGpmMetricsGet(nvmlGpmMetricsGet_t *request) {
    if (!nvml_is_initialized())
        return NVML_ERROR_UNINITIALIZED;
    if (!request || !request->sample1 || !request->sample2)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (request->version != METRICS_VERSION)
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    if (!request->sample1->taken || !request->sample2->taken)
        return NVML_ERROR_INVALID_ARGUMENT;
    for (unsigned at = 0; at < request->numMetrics; at++)
        compute(&request->metrics[at], request->sample2);
    return NVML_SUCCESS;
}
