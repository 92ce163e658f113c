// many, leak: many short-lived processes; a device that runs full.
#include <inttypes.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../engine/clock.h"
#include "commands.h"
#include "gate.h"
#include "kernels.h"
#include "options.h"
#include "truth.h"

static uint64_t processes = 50, launches = 3, together = 16, calling_every = 1, per_second;
static const char *program = "";
static uint64_t bytes = 1 << 20, limit, give_back;

static void live_shortly(uint64_t number) {
    truth_in_child();
    if (*program && number % calling_every != 0) {
        execl(program, program, (char *)NULL);
        _exit(127);
    }
    for (uint64_t at = 0; at < launches; at++)
        kernels_launch(VIA_RUNTIME, KERNEL_MATMUL, NULL);
    kernels_count(VIA_RUNTIME, launches);
    CALL(cudaDeviceSynchronize);
    _exit(0);
}

int command_many(char **arguments) {
    const struct option options[] = {
        NUMBER("processes", processes, "children"),
        NUMBER("launches", launches, "launches of each child"),
        NUMBER("together", together, "children alive at the same time"),
        TEXT("program", program, "what children become that make no calls"),
        NUMBER("calling-every", calling_every, "with --program: only every Nth child makes calls"),
        NUMBER("hz", per_second, "children started per second; 0: as fast as it goes"),
        END,
    };
    options_parse("many", "many short-lived processes", arguments, options);
    if (calling_every == 0)
        options_refuse("--calling-every is at least 1");
    workload_begin();
    kernels_first_use(VIA_RUNTIME, KERNEL_MATMUL);
    kernels_launch(VIA_RUNTIME, KERNEL_MATMUL, NULL);
    kernels_count(VIA_RUNTIME, 1);
    uint64_t started = 0, alive = 0, failed = 0, begin = now_ns();
    while (started < processes || alive) {
        if (started < processes && alive < together) {
            if (per_second)
                sleep_until_ns(begin + started * 1000000000 / per_second);
            pid_t child = fork();
            if (child == 0)
                live_shortly(started);
            if (child < 0)
                options_refuse("cannot create process %" PRIu64, started + 1);
            truth_child(child);
            started++;
            alive++;
        } else {
            int status;
            if (wait(&status) > 0) {
                alive--;
                failed += status != 0;
            }
        }
    }
    fprintf(truth_more(), ",\"failed\":%" PRIu64 ",\"elapsed_ns\":%" PRIu64, failed, now_ns() - begin);
    truth_print("many");
    return failed != 0;
}

int command_leak(char **arguments) {
    const struct option options[] = {
        NUMBER("bytes", bytes, "bytes of each allocation"),
        NUMBER("limit", limit, "stop after so many allocations; 0: until one fails"),
        NUMBER("free", give_back, "1: free everything in the end"),
        END,
    };
    options_parse("leak", "allocates until the device is full", arguments, options);
    workload_begin();
    uint64_t count = 0, capacity = 1024;
    void **pointers = malloc(capacity * sizeof *pointers);
    int error = 0;
    while ((!limit || count < limit) && !gate_is_stopped()) {
        if (count == capacity)
            pointers = realloc(pointers, (capacity *= 2) * sizeof *pointers);
        error = CALL(cudaMalloc, &pointers[count], bytes);
        if (error)
            break;
        count++;
    }
    fprintf(truth_more(), ",\"allocations\":%" PRIu64 ",\"bytes\":%" PRIu64 ",\"error\":%d", count,
            count * bytes, error);
    for (uint64_t at = 0; give_back && at < count; at++)
        CALL(cudaFree, pointers[at]);
    size_t free_bytes, total_bytes;
    cudaMemGetInfo(&free_bytes, &total_bytes);
    fprintf(truth_more(), ",\"free_bytes\":%zu,\"total_bytes\":%zu", free_bytes, total_bytes);
    truth_print("leak");
    return 0;
}
