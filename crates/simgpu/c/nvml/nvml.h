// The part of the NVML interface that the stand-in offers, with the real names and the real ABI. Everything
// declared here is exported from libnvidia-ml.so.1.
#pragma once

#include <stddef.h>
#include <stdint.h>

typedef int nvmlReturn_t;
typedef struct nvmlDevice_st *nvmlDevice_t;
typedef struct nvmlEventSet_st *nvmlEventSet_t;
typedef struct nvmlGpmSample_st *nvmlGpmSample_t;

enum {
    NVML_SUCCESS = 0,
    NVML_ERROR_UNINITIALIZED = 1,
    NVML_ERROR_INVALID_ARGUMENT = 2,
    NVML_ERROR_NOT_SUPPORTED = 3,
    NVML_ERROR_NO_PERMISSION = 4,
    NVML_ERROR_NOT_FOUND = 6,
    NVML_ERROR_INSUFFICIENT_SIZE = 7,
    NVML_ERROR_TIMEOUT = 10,
    NVML_ERROR_GPU_IS_LOST = 15,
    NVML_ERROR_MEMORY = 20,
    NVML_ERROR_ARGUMENT_VERSION_MISMATCH = 25,
    NVML_ERROR_UNKNOWN = 999,
};

typedef struct {
    char busIdLegacy[16];
    unsigned domain, bus, device;
    unsigned pciDeviceId, pciSubSystemId;
    char busId[32];
} nvmlPciInfo_t;

typedef struct {
    unsigned gpu, memory;
} nvmlUtilization_t;

typedef struct {
    uint64_t total, free, used;
} nvmlMemory_t;

typedef struct {
    unsigned version;
    uint64_t total, reserved, free, used;
} nvmlMemory_v2_t;

typedef struct {
    unsigned pid;
    uint64_t usedGpuMemory;
} nvmlProcessInfo_v1_t;

typedef struct {
    unsigned pid;
    uint64_t usedGpuMemory;
    unsigned gpuInstanceId, computeInstanceId;
} nvmlProcessInfo_t;

typedef struct {
    unsigned multiprocessorCount, sharedCopyEngineCount, sharedDecoderCount, sharedEncoderCount;
    unsigned sharedJpegCount, sharedOfaCount, gpuInstanceSliceCount, computeInstanceSliceCount;
    uint64_t memorySizeMB;
} nvmlDeviceAttributes_t;

typedef enum { NVML_VALUE_TYPE_UNSIGNED_INT = 1, NVML_VALUE_TYPE_UNSIGNED_LONG_LONG = 3 } nvmlValueType_t;

typedef struct {
    unsigned fieldId, scopeId;
    int64_t timestamp, latencyUsec;
    nvmlValueType_t valueType;
    nvmlReturn_t nvmlReturn;
    union {
        unsigned uiVal;
        uint64_t ullVal;
    } value;
} nvmlFieldValue_t;

typedef struct {
    nvmlDevice_t device;
    uint64_t eventType, eventData;
    unsigned gpuInstanceId, computeInstanceId;
} nvmlEventData_t;

typedef struct {
    unsigned metricId;
    nvmlReturn_t nvmlReturn;
    double value;
    struct {
        const char *shortName, *longName, *unit;
    } metricInfo;
} nvmlGpmMetric_t;

typedef struct {
    unsigned version, numMetrics;
    nvmlGpmSample_t sample1, sample2;
    nvmlGpmMetric_t metrics[]; // as many as the caller's header has; numMetrics of them are asked for
} nvmlGpmMetricsGet_t;

typedef struct {
    unsigned version, isSupportedDevice;
} nvmlGpmSupport_t;

#pragma GCC visibility push(default)

// The library and the system
nvmlReturn_t nvmlInit(void);
nvmlReturn_t nvmlInit_v2(void);
nvmlReturn_t nvmlInitWithFlags(unsigned flags);
nvmlReturn_t nvmlShutdown(void);
const char *nvmlErrorString(nvmlReturn_t result);
nvmlReturn_t nvmlSystemGetDriverVersion(char *version, unsigned length);
nvmlReturn_t nvmlSystemGetNVMLVersion(char *version, unsigned length);
nvmlReturn_t nvmlSystemGetCudaDriverVersion(int *version);
nvmlReturn_t nvmlSystemGetCudaDriverVersion_v2(int *version);

// Which devices there are
nvmlReturn_t nvmlDeviceGetCount(unsigned *count);
nvmlReturn_t nvmlDeviceGetCount_v2(unsigned *count);
nvmlReturn_t nvmlDeviceGetHandleByIndex(unsigned index, nvmlDevice_t *device);
nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned index, nvmlDevice_t *device);
nvmlReturn_t nvmlDeviceGetHandleByUUID(const char *uuid, nvmlDevice_t *device);
nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const char *busId, nvmlDevice_t *device);
nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t device, char *name, unsigned length);
nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char *uuid, unsigned length);
nvmlReturn_t nvmlDeviceGetIndex(nvmlDevice_t device, unsigned *index);
nvmlReturn_t nvmlDeviceGetMinorNumber(nvmlDevice_t device, unsigned *number);
nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, nvmlPciInfo_t *pci);
nvmlReturn_t nvmlDeviceGetCudaComputeCapability(nvmlDevice_t device, int *major, int *minor);

// What they do
nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t device, nvmlUtilization_t *rates);
nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *memory);
nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, nvmlMemory_v2_t *memory);
nvmlReturn_t nvmlDeviceGetPowerUsage(nvmlDevice_t device, unsigned *milliwatts);
nvmlReturn_t nvmlDeviceGetEnforcedPowerLimit(nvmlDevice_t device, unsigned *milliwatts);
nvmlReturn_t nvmlDeviceGetPowerManagementLimit(nvmlDevice_t device, unsigned *milliwatts);
nvmlReturn_t nvmlDeviceGetTotalEnergyConsumption(nvmlDevice_t device, uint64_t *millijoules);
nvmlReturn_t nvmlDeviceGetTemperature(nvmlDevice_t device, int sensor, unsigned *degrees);
nvmlReturn_t nvmlDeviceGetClockInfo(nvmlDevice_t device, int type, unsigned *mhz);
nvmlReturn_t nvmlDeviceGetClock(nvmlDevice_t device, int type, int which, unsigned *mhz);
nvmlReturn_t nvmlDeviceGetMaxClockInfo(nvmlDevice_t device, int type, unsigned *mhz);
nvmlReturn_t nvmlDeviceGetPerformanceState(nvmlDevice_t device, int *state);
nvmlReturn_t nvmlDeviceGetCurrentClocksThrottleReasons(nvmlDevice_t device, uint64_t *reasons);
nvmlReturn_t nvmlDeviceGetCurrentClocksEventReasons(nvmlDevice_t device, uint64_t *reasons);
nvmlReturn_t nvmlDeviceGetEccMode(nvmlDevice_t device, int *current, int *pending);
nvmlReturn_t nvmlDeviceGetTotalEccErrors(nvmlDevice_t device, int type, int period, uint64_t *count);
nvmlReturn_t nvmlDeviceGetFieldValues(nvmlDevice_t device, int count, nvmlFieldValue_t *values);

// Links
nvmlReturn_t nvmlDeviceGetPcieThroughput(nvmlDevice_t device, int direction, unsigned *kilobytes);
nvmlReturn_t nvmlDeviceGetCurrPcieLinkGeneration(nvmlDevice_t device, unsigned *generation);
nvmlReturn_t nvmlDeviceGetCurrPcieLinkWidth(nvmlDevice_t device, unsigned *lanes);
nvmlReturn_t nvmlDeviceGetMaxPcieLinkGeneration(nvmlDevice_t device, unsigned *generation);
nvmlReturn_t nvmlDeviceGetMaxPcieLinkWidth(nvmlDevice_t device, unsigned *lanes);
nvmlReturn_t nvmlDeviceGetPcieReplayCounter(nvmlDevice_t device, unsigned *count);
nvmlReturn_t nvmlDeviceGetNvLinkState(nvmlDevice_t device, unsigned link, int *isActive);
nvmlReturn_t nvmlDeviceGetNvLinkVersion(nvmlDevice_t device, unsigned link, unsigned *version);
nvmlReturn_t nvmlDeviceGetNvLinkErrorCounter(nvmlDevice_t device, unsigned link, int counter,
                                             uint64_t *count);

// Processes
#define PROCESS_ARGUMENTS(type) nvmlDevice_t device, unsigned *count, type *processes
nvmlReturn_t nvmlDeviceGetComputeRunningProcesses(PROCESS_ARGUMENTS(nvmlProcessInfo_v1_t));
nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v2(PROCESS_ARGUMENTS(nvmlProcessInfo_t));
nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v3(PROCESS_ARGUMENTS(nvmlProcessInfo_t));
nvmlReturn_t nvmlDeviceGetGraphicsRunningProcesses(PROCESS_ARGUMENTS(nvmlProcessInfo_v1_t));
nvmlReturn_t nvmlDeviceGetGraphicsRunningProcesses_v2(PROCESS_ARGUMENTS(nvmlProcessInfo_t));
nvmlReturn_t nvmlDeviceGetGraphicsRunningProcesses_v3(PROCESS_ARGUMENTS(nvmlProcessInfo_t));

// MIG
nvmlReturn_t nvmlDeviceGetMigMode(nvmlDevice_t device, unsigned *current, unsigned *pending);
nvmlReturn_t nvmlDeviceGetMaxMigDeviceCount(nvmlDevice_t device, unsigned *count);
nvmlReturn_t nvmlDeviceGetMigDeviceHandleByIndex(nvmlDevice_t device, unsigned index, nvmlDevice_t *instance);
nvmlReturn_t nvmlDeviceGetDeviceHandleFromMigDeviceHandle(nvmlDevice_t instance, nvmlDevice_t *device);
nvmlReturn_t nvmlDeviceIsMigDeviceHandle(nvmlDevice_t device, unsigned *isInstance);
nvmlReturn_t nvmlDeviceGetGpuInstanceId(nvmlDevice_t instance, unsigned *id);
nvmlReturn_t nvmlDeviceGetComputeInstanceId(nvmlDevice_t instance, unsigned *id);
nvmlReturn_t nvmlDeviceGetAttributes_v2(nvmlDevice_t instance, nvmlDeviceAttributes_t *attributes);

// GPM
nvmlReturn_t nvmlGpmQueryDeviceSupport(nvmlDevice_t device, nvmlGpmSupport_t *support);
nvmlReturn_t nvmlGpmSampleAlloc(nvmlGpmSample_t *sample);
nvmlReturn_t nvmlGpmSampleFree(nvmlGpmSample_t sample);
nvmlReturn_t nvmlGpmSampleGet(nvmlDevice_t device, nvmlGpmSample_t sample);
nvmlReturn_t nvmlGpmMigSampleGet(nvmlDevice_t device, unsigned gpuInstance, nvmlGpmSample_t sample);
nvmlReturn_t nvmlGpmMetricsGet(nvmlGpmMetricsGet_t *request);

// Events
nvmlReturn_t nvmlDeviceGetSupportedEventTypes(nvmlDevice_t device, uint64_t *types);
nvmlReturn_t nvmlEventSetCreate(nvmlEventSet_t *set);
nvmlReturn_t nvmlDeviceRegisterEvents(nvmlDevice_t device, uint64_t types, nvmlEventSet_t set);
nvmlReturn_t nvmlEventSetWait(nvmlEventSet_t set, nvmlEventData_t *event, unsigned milliseconds);
nvmlReturn_t nvmlEventSetWait_v2(nvmlEventSet_t set, nvmlEventData_t *event, unsigned milliseconds);
nvmlReturn_t nvmlEventSetFree(nvmlEventSet_t set);

#pragma GCC visibility pop
