// launch, threads: launches from one or several threads.
#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "../engine/clock.h"
#include "commands.h"
#include "gate.h"
#include "kernels.h"
#include "options.h"
#include "truth.h"

static uint64_t thread_count = 1, launches = 1000, gap_us, sync_every, steps_per_s, cpu = ANY_CPU;
static const char *via_name = "runtime", *stream_name = "default";

static enum via via;
static bool own_stream;
static pthread_barrier_t start;
static _Atomic uint64_t slowest_ns, failures;

// How many launches pass before the thread looks whether it shall stop.
#define LAUNCHES_PER_LOOK 1024

static void note_slowest(uint64_t elapsed_ns) {
    uint64_t before = slowest_ns;
    while (before < elapsed_ns && !__atomic_compare_exchange_n((uint64_t *)&slowest_ns, &before, elapsed_ns,
                                                               false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {
    }
}

static void *launch_all(void *arg) {
    cudaStream_t stream = NULL;
    uint64_t done = 0, syncs = 0, failed = 0;
    workload_pin(cpu);
    if (own_stream)
        CALL(cudaStreamCreate, &stream);
    kernels_first_use(via, KERNEL_MATMUL);
    pthread_barrier_wait(&start);
    uint64_t begin = now_ns(), next = begin;
    while (launches == 0 || done < launches) {
        failed += kernels_launch(via, KERNEL_MATMUL, stream) != 0;
        done++;
        if (sync_every && done % sync_every == 0) {
            cudaStreamSynchronize(stream);
            syncs++;
        }
        if (gap_us)
            sleep_ns(gap_us * 1000);
        if (steps_per_s) {
            next += 1000000000 / steps_per_s;
            sleep_until_ns(next);
        }
        if ((gap_us || steps_per_s || done % LAUNCHES_PER_LOOK == 0) && gate_is_stopped())
            break;
    }
    note_slowest(now_ns() - begin);
    kernels_count(via, done);
    truth_add(OP_cudaStreamSynchronize, syncs);
    failures += failed;
    if (own_stream)
        CALL(cudaStreamDestroy, stream);
    return arg;
}

static int run(const char *command) {
    via = kernels_via(via_name);
    own_stream = strcmp(stream_name, "own") == 0;
    if (!own_stream && strcmp(stream_name, "default") != 0)
        options_refuse("--stream is default or own, not \"%s\"", stream_name);
    if (thread_count < 1 || thread_count > 10000)
        options_refuse("between 1 and 10000 threads");
    workload_begin();
    if (via != VIA_RUNTIME)
        kernels_load_module();
    pthread_t *threads = calloc(thread_count, sizeof *threads);
    pthread_barrier_init(&start, NULL, (unsigned)thread_count);
    for (uint64_t at = 0; at < thread_count; at++)
        if (pthread_create(&threads[at], NULL, launch_all, NULL) != 0)
            options_refuse("cannot create thread %" PRIu64, at + 1);
    for (uint64_t at = 0; at < thread_count; at++)
        pthread_join(threads[at], NULL);
    fprintf(truth_more(), ",\"elapsed_ns\":%" PRIu64 ",\"failed\":%" PRIu64, slowest_ns, failures);
    if (getenv("SIMWORK_EARLIER"))
        fprintf(truth_more(), ",\"earlier\":%s", getenv("SIMWORK_EARLIER"));
    truth_print(command);
    return 0;
}

int command_launch(char **arguments) {
    const struct option options[] = {
        NUMBER("threads", thread_count, "threads that launch"),
        NUMBER("launches", launches, "launches of each thread; 0: until stopped"),
        TEXT("via", via_name, "runtime (cudaLaunchKernel), driver (cuLaunchKernel) or ex (cuLaunchKernelEx)"),
        TEXT("stream", stream_name, "default or own"),
        NUMBER("gap-us", gap_us, "sleep after each launch"),
        NUMBER("sync-every", sync_every, "synchronise the stream after so many launches"),
        NUMBER("hz", steps_per_s, "launches per second, evenly spaced; 0: as fast as it goes"),
        NUMBER("cpu", cpu, "pin all threads to this CPU"),
        END,
    };
    options_parse("launch", "launches from one or several threads", arguments, options);
    return run("launch");
}

int command_threads(char **arguments) {
    const struct option options[] = {
        NUMBER("n", thread_count, "threads"),
        NUMBER("launches", launches, "launches of each thread"),
        TEXT("stream", stream_name, "default or own"),
        END,
    };
    thread_count = 500;
    launches = 10;
    options_parse("threads", "hundreds of threads, a few launches each", arguments, options);
    return run("threads");
}
