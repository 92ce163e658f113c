// Functions that the compiler puts into another.
#include <stddef.h>

int cudaMalloc(void **, size_t);

static void *memory;

static inline __attribute__((always_inline)) int innermost(size_t bytes) {
    int ret = cudaMalloc(&memory, bytes); // at innermost
    return ret + !memory;
}

static inline __attribute__((always_inline)) int middle(size_t bytes) {
    return innermost(bytes) + !memory; // at middle
}

__attribute__((noinline)) int outer(size_t bytes) {
    int ret = middle(bytes); // at outer
    return ret + !memory;
}

int call(size_t bytes) {
    int ret = outer(bytes); // at call
    return ret + !memory;
}
