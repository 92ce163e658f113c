// Twelve functions, one in another. NAME gives them their names.
#include <stddef.h>

int cudaMalloc(void **, size_t);

#ifndef NAME
#define NAME step
#endif
#define JOIN(one, two) one##_##two
#define EXPAND(one, two) JOIN(one, two)
#define STEP(number) EXPAND(NAME, number)
// Each with a frame of another size, and with something to do after the call, so that no frame is left out.
#define NEST(number, inner)                                                                                  \
    __attribute__((noinline)) int STEP(number)(size_t bytes) {                                               \
        volatile char room[16 * number];                                                                     \
        room[0] = 0;                                                                                         \
        int ret = inner(bytes);                                                                              \
        return ret + room[0];                                                                                \
    }

static void *memory;

static __attribute__((noinline)) int allocate(size_t bytes) {
    int ret = cudaMalloc(&memory, bytes);
    return ret + !memory;
}

NEST(12, allocate)
NEST(11, STEP(12))
NEST(10, STEP(11))
NEST(9, STEP(10))
NEST(8, STEP(9))
NEST(7, STEP(8))
NEST(6, STEP(7))
NEST(5, STEP(6))
NEST(4, STEP(5))
NEST(3, STEP(4))
NEST(2, STEP(3))
NEST(1, STEP(2))

int call(size_t bytes) {
    int ret = STEP(1)(bytes);
    return ret + !memory;
}
