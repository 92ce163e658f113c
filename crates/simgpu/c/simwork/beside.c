// beside: launches through the driver and, in turns, through a copy of it that nobody watches. The machine
// does the same to both, so that the difference is what being watched costs.
#include <inttypes.h>
#include <stdio.h>
#include <time.h>

#include "../engine/clock.h"
#include "commands.h"
#include "kernels.h"
#include "library.h"
#include "options.h"
#include "truth.h"

static uint64_t seconds = 10, slice = 5000, cpu = ANY_CPU;
static const char *copy_path = "";

typedef __typeof__(cuLaunchKernel) *launch_function;

// The thread's own time: what others take from it by turns is no part of what being watched costs.
static uint64_t own_ns(void) {
    struct timespec time;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

// Nanoseconds of the thread's own that a slice of launches took.
static __attribute__((noinline)) uint64_t launch_slice(launch_function launch) {
    CUfunction function = kernels_function(KERNEL_MATMUL);
    uint64_t begin = own_ns();
    for (uint64_t at = 0; at < slice; at++)
        launch(function, 128, 2, 1, 256, 1, 1, 0, NULL, NULL, NULL);
    return own_ns() - begin;
}

int command_beside(char **arguments) {
    const struct option options[] = {
        TEXT("copy", copy_path, "a copy of libcuda.so.1 under a name that no driver has"),
        NUMBER("seconds", seconds, "how long"),
        NUMBER("slice", slice, "launches in a row through each"),
        NUMBER("cpu", cpu, "pin the thread to this CPU"),
        END,
    };
    options_parse("beside", "launches through the driver and through an unwatched copy of it, in turns",
                  arguments, options);
    if (!*copy_path || !slice)
        options_refuse("--copy names a copy of the driver, and a slice is at least one launch");
    launch_function driver = library_function(library_open("libcuda.so.1"), "cuLaunchKernel");
    launch_function copy = library_function(library_open(copy_path), "cuLaunchKernel");
    if (driver == copy)
        options_refuse("%s is the driver itself", copy_path);
    workload_begin();
    workload_pin(cpu);
    kernels_load_module();
    uint64_t driver_ns = 0, copy_ns = 0, slices = 0, end = now_ns() + seconds * 1000000000u;
    // Who goes first changes, so that a tick of the clock hits both alike.
    for (; now_ns() < end; slices += 2) {
        driver_ns += launch_slice(driver);
        copy_ns += launch_slice(copy);
        copy_ns += launch_slice(copy);
        driver_ns += launch_slice(driver);
    }
    truth_add(OP_cuLaunchKernel, slices * slice);
    fprintf(truth_more(), ",\"driver_ns\":%" PRIu64 ",\"copy_ns\":%" PRIu64, driver_ns, copy_ns);
    truth_print("beside");
    return 0;
}
