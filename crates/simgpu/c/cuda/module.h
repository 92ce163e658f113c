// Functions and images of the stand-in driver, as its other parts see them.
#pragma once

#include <stdbool.h>

#include "cuda.h"

#define FUNCTION_MAGIC 0xf0c71000u

struct CUfunc_st {
    uint32_t magic;
    void *module; // or library, that it was found in
    char name[];  // mangled
};

static inline bool function_is_valid(CUfunction function) {
    return function && function->magic == FUNCTION_MAGIC;
}

// Whether an image is PTX; and the time that compiling one takes.
bool module_is_ptx(const void *image);
void module_compile(void);
