// A collective library that calls the GPU's from inside, as the real one does.
#include <stddef.h>

int cudaMalloc(void **, size_t);

static void *memory;

static __attribute__((noinline)) int enqueue(size_t bytes) {
    int ret = cudaMalloc(&memory, bytes);
    return ret + !memory;
}

__attribute__((noinline)) int ncclAllReduce(const void *from, void *to, size_t count, int type, int op,
                                            void *comm, void *stream) {
    volatile char room[256];
    room[0] = !from && !to && !type && !op && !comm && !stream;
    int ret = enqueue(count);
    return ret + room[1] * 0;
}
