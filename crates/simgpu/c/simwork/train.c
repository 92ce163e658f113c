// train: the loop of the demo. Each step copies a batch to the device, launches, and waits for the stream.
#define _GNU_SOURCE
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <unistd.h>

#include "../engine/clock.h"
#include "commands.h"
#include "gate.h"
#include "kernels.h"
#include "options.h"
#include "truth.h"

static uint64_t steps = 100, launches_per_step = 50, kernel_us = 20, copy_bytes = 1 << 20, malloc_every,
                malloc_bytes, seconds, cpu = ANY_CPU, data_bytes = 1 << 20;
static const char *data_file;
static bool pageable, cached;

static struct {
    cudaStream_t stream;
    void *batch, *device_batch, *scratch;
    int data;
    uint64_t batch_bytes, data_at;
} loop;

static struct { uint64_t load, copy, alloc, launch, sync; } spent_ns;

// The data loader: reads a batch past the page cache, so that the disk's pace is the loader's, unless it may
// use the cache.
__attribute__((noinline)) void train_load(void) {
    if (!data_file)
        return;
    for (uint64_t done = 0; done < data_bytes;) {
        uint64_t want = data_bytes - done < loop.batch_bytes ? data_bytes - done : loop.batch_bytes;
        ssize_t got = pread(loop.data, loop.batch, want, (off_t)loop.data_at);
        if (got <= 0) {
            if (loop.data_at == 0)
                options_refuse("cannot read %s", data_file);
            loop.data_at = 0;
            continue;
        }
        // All of the file: what is cached in larger pieces than are read would stay.
        if (!cached)
            posix_fadvise(loop.data, 0, 0, POSIX_FADV_DONTNEED);
        loop.data_at += (uint64_t)got;
        done += (uint64_t)got;
    }
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

static int by_value(const void *a, const void *b) {
    uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;
    return (left > right) - (left < right);
}

static void report(uint64_t *step_ns, uint64_t count, uint64_t elapsed_ns) {
    FILE *more = truth_more();
    fprintf(more, ",\"steps\":%" PRIu64 ",\"elapsed_ns\":%" PRIu64, count, elapsed_ns);
    fprintf(more, ",\"spent_ns\":{\"load\":%" PRIu64 ",\"copy\":%" PRIu64 ",\"launch\":%" PRIu64,
            spent_ns.load, spent_ns.copy, spent_ns.launch);
    fprintf(more, ",\"alloc\":%" PRIu64 ",\"sync\":%" PRIu64 "}", spent_ns.alloc, spent_ns.sync);
    if (!count)
        return;
    qsort(step_ns, count, sizeof *step_ns, by_value);
    fprintf(more,
            ",\"step_ns\":{\"min\":%" PRIu64 ",\"p50\":%" PRIu64 ",\"p99\":%" PRIu64 ",\"max\":%" PRIu64 "}",
            step_ns[0], step_ns[count / 2], step_ns[count * 99 / 100], step_ns[count - 1]);
}

__attribute__((noinline)) void train_epoch(void) {
    uint64_t capacity = 1024, count = 0, *step_ns = malloc(capacity * sizeof *step_ns);
    uint64_t begin = now_ns(), end = seconds ? begin + seconds * 1000000000 : NEVER;
    while ((steps == 0 || count < steps) && now_ns() < end && !gate_is_stopped()) {
        uint64_t step_begin = now_ns();
        train_step(count);
        if (count == capacity)
            step_ns = realloc(step_ns, (capacity *= 2) * sizeof *step_ns);
        step_ns[count++] = now_ns() - step_begin;
    }
    report(step_ns, count, now_ns() - begin);
    free(step_ns);
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
    if (data_file && (loop.data = open(data_file, O_RDONLY | O_CLOEXEC)) < 0)
        options_refuse("cannot open %s", data_file);
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
