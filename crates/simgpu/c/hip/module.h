// Functions of the stand-in HIP, as launches see them.
#pragma once

#include <stdbool.h>

#include "hip.h"

#define FUNCTION_MAGIC 0xf0c71001u

struct ihipModuleSymbol_t {
    uint32_t magic;
    char name[]; // mangled
};

static inline bool function_is_valid(hipFunction_t function) {
    return function && function->magic == FUNCTION_MAGIC;
}
