// Arrays of the stand-in driver: device memory that only textures and copies can reach.
#include <stdlib.h>

#include "../engine/pool.h"
#include "cuda.h"

struct CUarray_st {
    CUdeviceptr memory;
};

static size_t element_bytes(unsigned format) {
    switch (format) {
    case CU_AD_FORMAT_UNSIGNED_INT8:
    case CU_AD_FORMAT_SIGNED_INT8:
        return 1;
    case CU_AD_FORMAT_UNSIGNED_INT16:
    case CU_AD_FORMAT_SIGNED_INT16:
    case CU_AD_FORMAT_HALF:
        return 2;
    default:
        return 4;
    }
}

static size_t at_least_one(size_t length) {
    return length ? length : 1;
}

static CUresult create(CUarray *array, size_t bytes) {
    if (!array || !bytes)
        return CUDA_ERROR_INVALID_VALUE;
    CUarray made = malloc(sizeof *made);
    CUresult result = made ? pool_alloc(bytes, &made->memory) : CUDA_ERROR_OUT_OF_MEMORY;
    if (result == CUDA_SUCCESS)
        *array = made;
    else
        free(made);
    return result;
}

CUresult cuArrayCreate_v2(CUarray *array, const CUDA_ARRAY_DESCRIPTOR *shape) {
    if (!shape)
        return CUDA_ERROR_INVALID_VALUE;
    return create(array, shape->Width * at_least_one(shape->Height) * element_bytes(shape->Format) *
                             shape->NumChannels);
}

CUresult cuArray3DCreate_v2(CUarray *array, const CUDA_ARRAY3D_DESCRIPTOR *shape) {
    if (!shape)
        return CUDA_ERROR_INVALID_VALUE;
    return create(array, shape->Width * at_least_one(shape->Height) * at_least_one(shape->Depth) *
                             element_bytes(shape->Format) * shape->NumChannels);
}

CUresult cuArrayDestroy(CUarray array) {
    if (!array)
        return CUDA_ERROR_INVALID_HANDLE;
    CUresult result = pool_free(array->memory);
    free(array);
    return result;
}
