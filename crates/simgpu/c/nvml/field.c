// Field values: readings that are asked for by number, many at a time.
#include "../engine/clock.h"
#include "device.h"
#include "link.h"

enum field {
    ECC_CORRECTED_VOLATILE = 3,
    ECC_UNCORRECTED_VOLATILE = 4,
    ECC_CORRECTED_EVER = 5,
    ECC_UNCORRECTED_EVER = 6,
    MEMORY_TEMPERATURE = 82,
    TOTAL_ENERGY = 83,
    NVLINK_SPEED_COMMON = 90,
    NVLINK_LINK_COUNT = 91,
    PCIE_REPLAY_COUNTER = 94,
    NVLINK_THROUGHPUT_DATA_TX = 138,
    NVLINK_THROUGHPUT_RAW_RX = 141,
    NVSWITCH_CONNECTED_LINKS = 147,
    NVLINK_DL_REPLAY = 161,
    NVLINK_DL_RECOVERY = 162,
    NVLINK_DL_CRC = 163,
    NVLINK_SPEED = 164,
    NVLINK_STATE = 165,
    NVLINK_GENERATION = 166,
    POWER_AVERAGE = 185,
    POWER_INSTANT = 186,
    POWER_MAX_LIMIT = 188,
    POWER_DEFAULT_LIMIT = 189,
    POWER_CURRENT_LIMIT = 190,
    PCIE_TX_BYTES = 197,
    PCIE_RX_BYTES = 198,
};

static uint64_t grown(uint64_t per_second) {
    return (uint64_t)((unsigned __int128)per_second * nvml_elapsed_ns() / 1000000000u);
}

// Error counters of single links, in groups of one kind each, and their totals.
static bool is_nvlink_errors(unsigned id, bool *of_first_link_or_all) {
    static const unsigned first_links[] = {32, 39, 46, 53, 148}, totals[] = {38, 45, 52, 59, 160};
    *of_first_link_or_all = false;
    for (int kind = 0; kind < 5; kind++)
        *of_first_link_or_all |= id == first_links[kind] || id == totals[kind];
    return (id >= 32 && id <= 59) || (id >= 96 && id <= 119) || (id >= 148 && id <= 160);
}

// What is counted: 64 bits. Whatever else is told has 32.
static nvmlReturn_t count_of(const nvmlFieldValue_t *field, uint64_t *count) {
    unsigned link = field->scopeId;
    bool has_errors;
    if (is_nvlink_errors(field->fieldId, &has_errors)) {
        *count = has_errors ? CONTROL(nvml_nvlink_errors) : 0;
        return NVML_SUCCESS;
    }
    switch ((enum field)field->fieldId) {
    case ECC_CORRECTED_VOLATILE:
    case ECC_CORRECTED_EVER:
        *count = CONTROL(nvml_ecc_corrected);
        return NVML_SUCCESS;
    case ECC_UNCORRECTED_VOLATILE:
    case ECC_UNCORRECTED_EVER:
        *count = CONTROL(nvml_ecc_uncorrected);
        return NVML_SUCCESS;
    case NVLINK_DL_REPLAY:
    case NVLINK_DL_RECOVERY:
    case NVLINK_DL_CRC:
        *count = link == 0 ? CONTROL(nvml_nvlink_errors) : 0;
        return link < NVLINKS ? NVML_SUCCESS : NVML_ERROR_INVALID_ARGUMENT;
    case TOTAL_ENERGY:
        *count = grown(CONTROL(nvml_power_mw));
        return NVML_SUCCESS;
    case PCIE_TX_BYTES:
        *count = grown(CONTROL(nvml_pcie_tx_kb) * 1024);
        return NVML_SUCCESS;
    case PCIE_RX_BYTES:
        *count = grown(CONTROL(nvml_pcie_rx_kb) * 1024);
        return NVML_SUCCESS;
    default:
        if (field->fieldId < NVLINK_THROUGHPUT_DATA_TX || field->fieldId > NVLINK_THROUGHPUT_RAW_RX)
            return NVML_ERROR_NOT_SUPPORTED;
        *count = grown(CONTROL(nvml_nvlink_kb));
        return NVML_SUCCESS;
    }
}

static nvmlReturn_t number_of(const nvmlFieldValue_t *field, unsigned *number) {
    unsigned link = field->scopeId;
    bool is_up = link < CONTROL(nvml_nvlinks);
    switch ((enum field)field->fieldId) {
    case MEMORY_TEMPERATURE:
        *number = (unsigned)CONTROL(nvml_temperature);
        return NVML_SUCCESS;
    case NVLINK_SPEED_COMMON:
        *number = NVLINK_MB_PER_S;
        return NVML_SUCCESS;
    case NVLINK_LINK_COUNT:
        *number = NVLINKS;
        return NVML_SUCCESS;
    case NVSWITCH_CONNECTED_LINKS:
        *number = (unsigned)CONTROL(nvml_nvlinks);
        return NVML_SUCCESS;
    case PCIE_REPLAY_COUNTER:
        *number = (unsigned)CONTROL(nvml_pcie_replays);
        return NVML_SUCCESS;
    case NVLINK_SPEED:
        *number = is_up ? NVLINK_MB_PER_S : 0;
        return link < NVLINKS ? NVML_SUCCESS : NVML_ERROR_INVALID_ARGUMENT;
    case NVLINK_STATE:
        *number = is_up;
        return link < NVLINKS ? NVML_SUCCESS : NVML_ERROR_INVALID_ARGUMENT;
    case NVLINK_GENERATION:
        *number = NVLINK_VERSION;
        return link < NVLINKS ? NVML_SUCCESS : NVML_ERROR_INVALID_ARGUMENT;
    case POWER_AVERAGE:
    case POWER_INSTANT:
        *number = (unsigned)CONTROL(nvml_power_mw);
        return NVML_SUCCESS;
    case POWER_MAX_LIMIT:
    case POWER_DEFAULT_LIMIT:
    case POWER_CURRENT_LIMIT:
        *number = (unsigned)CONTROL(nvml_power_limit_mw);
        return NVML_SUCCESS;
    default:
        return NVML_ERROR_NOT_SUPPORTED;
    }
}

nvmlReturn_t nvmlDeviceGetFieldValues(nvmlDevice_t device, int count, nvmlFieldValue_t *values) {
    nvmlReturn_t result = device_check_whole(device, values);
    for (int at = 0; result == NVML_SUCCESS && at < count; at++) {
        nvmlFieldValue_t *field = &values[at];
        field->timestamp = (int64_t)(now_ns() / 1000);
        field->latencyUsec = 0;
        field->value.ullVal = 0;
        field->valueType = NVML_VALUE_TYPE_UNSIGNED_LONG_LONG;
        field->nvmlReturn = count_of(field, &field->value.ullVal);
        if (field->nvmlReturn == NVML_ERROR_NOT_SUPPORTED) {
            field->valueType = NVML_VALUE_TYPE_UNSIGNED_INT;
            field->nvmlReturn = number_of(field, &field->value.uiVal);
        }
    }
    return result;
}
