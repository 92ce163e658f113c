// train: the loop of the demo. Each step copies a batch to the device, launches, and waits for the stream.
#include <inttypes.h>
#include <stdlib.h>

#include "../engine/clock.h"
#include "commands.h"
#include "data_file.h"
#include "gate.h"
#include "kernels.h"
#include "options.h"
#include "step_times.h"
#include "truth.h"

static uint64_t steps = 100, launches_per_step = 50, kernel_us = 20, copy_bytes = 1 << 20, malloc_every,
                malloc_bytes, seconds, cpu = ANY_CPU, data_bytes = 1 << 20;
static const char *data_file;
static bool pageable, cached;

static struct {
    cudaStream_t stream;
    void *batch, *device_batch, *scratch;
    uint64_t batch_bytes;
} loop;

static struct { uint64_t load, copy, alloc, launch, sync; } spent_ns;

// The data loader.
__attribute__((noinline)) void train_load(void) {
    data_file_read(loop.batch, loop.batch_bytes, data_bytes);
}

__attribute__((noinline)) void train_copy(void) {
    if (copy_bytes && pageable)
        CALL(cudaMemcpy, loop.device_batch, loop.batch, copy_bytes, cudaMemcpyHostToDevice);
    else if (copy_bytes)
        CALL(cudaMemcpyAsync, loop.device_batch, loop.batch, copy_bytes, cudaMemcpyHostToDevice, loop.stream);
}

__attribute__((noinline)) void train_forward(void) {
    for (uint64_t launch = 0; launch < launches_per_step; launch++)
        kernels_launch(VIA_RUNTIME, (enum kernel)(launch % KERNEL_COUNT), loop.stream);
    kernels_count(VIA_RUNTIME, launches_per_step);
}

__attribute__((noinline)) void train_reallocate(void) {
    if (loop.scratch)
        CALL(cudaFree, loop.scratch);
    if (CALL(cudaMalloc, &loop.scratch, malloc_bytes) != 0)
        loop.scratch = NULL;
}

__attribute__((noinline)) void train_step(uint64_t step) {
    for (uint64_t kernel = 0; step == 0 && kernel < KERNEL_COUNT && kernel < launches_per_step; kernel++)
        kernels_first_use(VIA_RUNTIME, (enum kernel)kernel);
    uint64_t begin = now_ns();
    train_load();
    uint64_t loaded = now_ns();
    train_copy();
    uint64_t copied = now_ns();
    train_forward();
    uint64_t launched = now_ns();
    // Freed behind the launches of this step: the free waits for them, as in a real program.
    if (malloc_every && (step + 1) % malloc_every == 0)
        train_reallocate();
    uint64_t allocated = now_ns();
    CALL(cudaStreamSynchronize, loop.stream);
    uint64_t end = now_ns();
    spent_ns.load += loaded - begin;
    spent_ns.copy += copied - loaded;
    spent_ns.launch += launched - copied;
    spent_ns.alloc += allocated - launched;
    spent_ns.sync += end - allocated;
}

__attribute__((noinline)) void train_epoch(void) {
    uint64_t begin = now_ns(), end = seconds ? begin + seconds * 1000000000 : NEVER;
    while ((steps == 0 || step_times_count() < steps) && now_ns() < end && !gate_is_stopped()) {
        uint64_t step_begin = now_ns();
        train_step(step_times_count());
        step_times_add(now_ns() - step_begin);
    }
    step_times_tell(now_ns() - begin);
    FILE *more = truth_more();
    fprintf(more, ",\"spent_ns\":{\"load\":%" PRIu64 ",\"copy\":%" PRIu64 ",\"launch\":%" PRIu64,
            spent_ns.load, spent_ns.copy, spent_ns.launch);
    fprintf(more, ",\"alloc\":%" PRIu64 ",\"sync\":%" PRIu64 "}", spent_ns.alloc, spent_ns.sync);
}

int command_train(char **arguments) {
    malloc_bytes = 1 << 20;
    const struct option options[] = {
        NUMBER("steps", steps, "steps; 0: until stopped"),
        NUMBER("launches-per-step", launches_per_step, "launches in a step"),
        NUMBER("kernel-us", kernel_us, "how long a kernel runs, unless the control page says otherwise"),
        NUMBER("copy-bytes", copy_bytes, "bytes copied to the device in a step"),
        FLAG("pageable", pageable, "copy from memory that is not pinned: the call waits for its bytes"),
        NUMBER("malloc-every", malloc_every, "allocate and free in every Nth step"),
        NUMBER("malloc-bytes", malloc_bytes, "how much"),
        TEXT("data", data_file, "read each batch from this file, past the page cache"),
        FLAG("cached", cached, "through the page cache instead"),
        NUMBER("data-bytes", data_bytes, "how much in a step"),
        NUMBER("seconds", seconds, "stop after so long; 0: no limit"),
        NUMBER("cpu", cpu, "pin the training thread to this CPU"),
        END,
    };
    options_parse("train", "a training loop: launches, a copy and a synchronisation each step", arguments,
                  options);
    workload_pin(cpu);
    if (kernel_us)
        simgpu_set("kernel_ns", kernel_us * 1000);
    if (data_file)
        data_file_open(data_file, cached);
    workload_begin();
    loop.batch_bytes = copy_bytes ? copy_bytes : 4096;
    CALL(cudaStreamCreate, &loop.stream);
    if (pageable)
        loop.batch = calloc(1, loop.batch_bytes);
    else
        CALL(cudaMallocHost, &loop.batch, loop.batch_bytes);
    if (CALL(cudaMalloc, &loop.device_batch, loop.batch_bytes) != 0)
        options_refuse("the device has no %" PRIu64 " bytes for a batch", loop.batch_bytes);
    train_epoch();
    if (loop.scratch)
        CALL(cudaFree, loop.scratch);
    CALL(cudaFree, loop.device_batch);
    if (pageable)
        free(loop.batch);
    else
        CALL(cudaFreeHost, loop.batch);
    CALL(cudaStreamDestroy, loop.stream);
    truth_print("train");
    return 0;
}
