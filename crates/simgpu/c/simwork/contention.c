// mutex, hog: a lock that a sibling keeps; a neighbour that takes the CPU.
#include <inttypes.h>
#include <stdlib.h>
#include <sys/prctl.h>

#include "../engine/clock.h"
#include "commands.h"
#include "gate.h"
#include "kernels.h"
#include "options.h"
#include "truth.h"

static uint64_t hold_ms = 20, rounds = 50, calm_launches = 0;
static uint64_t cpu = ANY_CPU, seconds;
static const char *name = "cpu-hog";

int command_mutex(char **arguments) {
    const struct option options[] = {
        NUMBER("hold-ms", hold_ms, "how long the sibling keeps the mutex"),
        NUMBER("rounds", rounds, "launches that find it kept"),
        NUMBER("calm-launches", calm_launches, "launches before, without the sibling"),
        END,
    };
    options_parse("mutex", "launches that wait for a mutex held by a sibling thread", arguments, options);
    workload_begin();
    kernels_first_use(VIA_RUNTIME, KERNEL_MATMUL);
    for (uint64_t at = 0; at < calm_launches; at++)
        kernels_launch(VIA_RUNTIME, KERNEL_MATMUL, NULL);
    simgpu_set("lock_hold_ns", hold_ms * 1000000);
    uint64_t waited_ns = 0, round = 0;
    for (; round < rounds && !gate_is_stopped(); round++) {
        simgpu_await_held_lock();
        uint64_t begin = now_ns();
        kernels_launch(VIA_RUNTIME, KERNEL_MATMUL, NULL);
        waited_ns += now_ns() - begin;
    }
    simgpu_set("lock_hold_ns", 0);
    kernels_count(VIA_RUNTIME, calm_launches + round);
    fprintf(truth_more(), ",\"rounds\":%" PRIu64 ",\"waited_ns\":%" PRIu64, round, waited_ns);
    truth_print("mutex");
    return 0;
}

int command_hog(char **arguments) {
    const struct option options[] = {
        NUMBER("cpu", cpu, "pin to this CPU"),
        NUMBER("seconds", seconds, "stop after so long; 0: when told to"),
        TEXT("name", name, "name of the process in lists"),
        END,
    };
    options_parse("hog", "burns CPU time, and makes no calls", arguments, options);
    prctl(PR_SET_NAME, name);
    workload_pin(cpu);
    truth_begin();
    gate_wait();
    uint64_t begin = now_ns(), end = seconds ? begin + seconds * 1000000000 : NEVER;
    while (now_ns() < end && !gate_is_stopped())
        spin_ns(5000000);
    fprintf(truth_more(), ",\"elapsed_ns\":%" PRIu64, now_ns() - begin);
    truth_print("hog");
    return 0;
}
