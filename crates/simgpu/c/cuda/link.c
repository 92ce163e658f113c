// Linking of the stand-in driver: images go in, and a cubin that says nothing comes out.
#include <stdlib.h>

#include "module.h"

struct CUlinkState_st {
    unsigned images, ptx_images;
};

static const char cubin[] = "\x7f"
                            "ELF: linked";

CUresult cuLinkCreate_v2(unsigned optionCount, int *options, void **values, CUlinkState *state) {
    (void)optionCount, (void)options, (void)values;
    if (!state)
        return CUDA_ERROR_INVALID_VALUE;
    *state = calloc(1, sizeof **state);
    return *state ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuLinkAddData_v2(CUlinkState state, int type, void *data, size_t bytes, const char *name,
                          unsigned optionCount, int *options, void **values) {
    (void)type, (void)bytes, (void)name, (void)optionCount, (void)options, (void)values;
    if (!state)
        return CUDA_ERROR_INVALID_HANDLE;
    if (!data)
        return CUDA_ERROR_INVALID_VALUE;
    state->images++;
    state->ptx_images += module_is_ptx(data);
    return CUDA_SUCCESS;
}

CUresult cuLinkComplete(CUlinkState state, void **image, size_t *bytes) {
    if (!state || !state->images)
        return CUDA_ERROR_INVALID_HANDLE;
    if (!image)
        return CUDA_ERROR_INVALID_VALUE;
    for (unsigned at = 0; at < state->ptx_images; at++)
        module_compile();
    *image = (void *)cubin;
    if (bytes)
        *bytes = sizeof cubin;
    return CUDA_SUCCESS;
}

CUresult cuLinkDestroy(CUlinkState state) {
    free(state);
    return state ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}
