// nested: runtime calls that enter driver calls, several levels of them, and calls made by host functions on
// the stream's own thread while another thread is inside a call.
#include <inttypes.h>
#include <pthread.h>

#include "../engine/clock.h"
#include "commands.h"
#include "kernels.h"
#include "options.h"
#include "truth.h"

static uint64_t rounds = 10;
static _Atomic uint32_t callbacks; // futex word

// Runs on the stream's thread, while the main thread waits inside cudaStreamSynchronize.
static void allocate_in_callback(void *arg) {
    void *pointer = NULL;
    CALL(cudaMallocAsync, &pointer, 0x1000 + (uintptr_t)arg, NULL);
    CALL(cudaFreeAsync, pointer, NULL);
    callbacks++;
    futex_wake_all(&callbacks);
}

static void *synchronize_elsewhere(void *stream) {
    CALL(cudaStreamSynchronize, stream);
    return NULL;
}

int command_nested(char **arguments) {
    const struct option options[] = {NUMBER("rounds", rounds, "how often everything is done"), END};
    options_parse("nested", "calls inside calls, and calls from host functions", arguments, options);
    workload_begin();
    cudaStream_t stream;
    void *pointer, *host;
    pthread_t thread;
    CALL(cudaStreamCreate, &stream);
    CALL(cudaMallocHost, &host, 1 << 16);
    for (uint64_t round = 0; round < rounds; round++) {
        CALL(cudaMalloc, &pointer, 1 << 16);
        CALL(cudaMemcpyAsync, pointer, host, 1 << 16, cudaMemcpyHostToDevice, stream);
        kernels_first_use(VIA_RUNTIME, KERNEL_MATMUL);
        kernels_launch(VIA_RUNTIME, KERNEL_MATMUL, stream);
        kernels_count(VIA_RUNTIME, 1);
        CALL(cudaLaunchHostFunc, stream, allocate_in_callback, (void *)(uintptr_t)round);
        pthread_create(&thread, NULL, synchronize_elsewhere, stream);
        CALL(cudaStreamSynchronize, stream);
        pthread_join(thread, NULL);
        CALL(cudaMemcpy, host, pointer, 1 << 15, cudaMemcpyDeviceToHost);
        CALL(cudaFree, pointer);
    }
    CALL(cudaFreeHost, host);
    CALL(cudaStreamDestroy, stream);
    fprintf(truth_more(), ",\"callbacks\":%" PRIu32, callbacks);
    truth_print("nested");
    return 0;
}
