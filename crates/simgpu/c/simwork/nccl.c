// nccl: one rank of a communicator. Started once per rank; the ranks meet through a file with the unique id.
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "../engine/clock.h"
#include "collectives.h"
#include "commands.h"
#include "gate.h"
#include "kernels.h"
#include "library.h"
#include "nccl_library.h"
#include "options.h"
#include "truth.h"

#define MAX_STREAMS 16

static uint64_t rank, nranks = 2, iterations = 10, late_us, count = 1024, stop_at, mismatch_at, step_us,
                      kernel_us;
static uint64_t colors, stream_count = 1;
static const char *id_file, *operation = "allreduce", *other_operation, *init = "config",
                            *teardown = "destroy";

static struct member world, part;
static cudaStream_t streams[MAX_STREAMS];
static void *buffer;

// Not inlined, and not static: a name for the stacks of the demo.
__attribute__((noinline)) void nccl_communicate(const char *what, struct exchange exchange) {
    collectives_run(what, exchange);
}

static void check_names(void) {
    const char *names[] = {operation, other_operation ? other_operation : operation};
    for (int at = 0; at < 2; at++)
        if (!collectives_know(names[at]))
            options_refuse("nccl: there is no operation \"%s\" (see simwork nccl --help)", names[at]);
    if (!member_knows_way(init))
        options_refuse("nccl: --init is rank, config or scalable, not \"%s\"", init);
    if (strcmp(teardown, "destroy") != 0 && strcmp(teardown, "abort") != 0)
        options_refuse("nccl: --teardown is destroy or abort, not \"%s\"", teardown);
    if (!id_file)
        options_refuse("nccl: --id-file is needed: the file through which the ranks meet");
    if (rank >= nranks)
        options_refuse("nccl: rank %" PRIu64 " is not below %" PRIu64, rank, nranks);
    if (stream_count < 1 || stream_count > MAX_STREAMS)
        options_refuse("nccl: between 1 and %d streams", MAX_STREAMS);
}

static void synchronize_streams(void) {
    for (uint64_t at = 0; at < stream_count; at++)
        CALL(cudaStreamSynchronize, streams[at]);
}

// What a step is without its collective.
static void compute(cudaStream_t stream) {
    simgpu_set("kernel_ns", kernel_us * 1000);
    kernels_first_use(VIA_RUNTIME, KERNEL_MATMUL);
    kernels_launch(VIA_RUNTIME, KERNEL_MATMUL, stream);
    kernels_count(VIA_RUNTIME, 1);
    CALL(cudaStreamSynchronize, stream);
}

static void communicate(void) {
    uint64_t call_ns = 0, sync_ns = 0, slowest_sync_ns = 0, iteration = 0;
    for (; iteration < iterations && !gate_is_stopped(); iteration++) {
        if (stop_at && iteration + 1 == stop_at) {
            // The missing rank: it is alive and well, and does something else.
            while (!gate_is_stopped())
                sleep_ns(10000000);
            break;
        }
        if (step_us)
            sleep_ns(step_us * 1000);
        if (kernel_us)
            compute(streams[iteration % stream_count]);
        if (late_us)
            sleep_ns(late_us * 1000);
        // Every stream has its turn on the one communicator before they go on to the other.
        bool on_part = colors && iteration / stream_count % 2;
        bool mismatches = iteration + 1 == mismatch_at;
        uint64_t begin = now_ns();
        nccl_communicate(mismatches && other_operation ? other_operation : operation,
                         (struct exchange){
                             .member = on_part ? &part : &world,
                             .stream = streams[iteration % stream_count],
                             .buffer = buffer,
                             .count = mismatches && !other_operation ? count + 1 : count,
                         });
        uint64_t called = now_ns();
        call_ns += called - begin;
        if ((iteration + 1) % stream_count != 0 && iteration + 1 != iterations)
            continue;
        synchronize_streams();
        uint64_t took_ns = now_ns() - called;
        sync_ns += took_ns;
        slowest_sync_ns = took_ns > slowest_sync_ns ? took_ns : slowest_sync_ns;
    }
    fprintf(truth_more(), ",\"iterations\":%" PRIu64 ",\"call_ns\":%" PRIu64 ",\"sync_ns\":%" PRIu64,
            iteration, call_ns, sync_ns);
    fprintf(truth_more(), ",\"slowest_sync_ns\":%" PRIu64, slowest_sync_ns);
}

static void leave(void *library) {
    bool abort = strcmp(teardown, "abort") == 0;
    if (colors)
        member_leave(library, &part, abort);
    member_leave(library, &world, abort);
    CALL(cudaFree, buffer);
    for (uint64_t at = 0; at < stream_count; at++)
        CALL(cudaStreamDestroy, streams[at]);
}

int command_nccl(char **arguments) {
    const struct option options[] = {
        NUMBER("rank", rank, "this rank"),
        NUMBER("nranks", nranks, "ranks in the communicator"),
        TEXT("id-file", id_file, "where rank 0 writes the unique id and the others read it"),
        NUMBER("iters", iterations, "collectives, each followed by a synchronisation"),
        TEXT("op", operation, COLLECTIVES),
        NUMBER("count", count, "elements (32-bit floats)"),
        TEXT("init", init,
             "by ncclCommInitRank: rank, its form with a config: config, or with ids: scalable"),
        NUMBER("split", colors, "split into rank % N groups, and use both communicators by turns"),
        NUMBER("streams", stream_count, "use so many streams by turns, and synchronise all after each turn"),
        TEXT("teardown", teardown, "destroy or abort"),
        NUMBER("step-us", step_us, "sleep before each collective, on every rank"),
        NUMBER("kernel-us", kernel_us, "wait for a kernel of this length before each collective"),
        NUMBER("late-us", late_us, "sleep before each collective: this rank is late"),
        NUMBER("stop-at", stop_at, "never reach the Nth collective: this rank is missing"),
        NUMBER("mismatch-at", mismatch_at, "in the Nth collective use another count than the others"),
        TEXT("mismatch-op", other_operation, "in the Nth collective call this one instead"),
        END,
    };
    options_parse("nccl", "one rank of a communicator", arguments, options);
    check_names();
    void *library = library_open("libnccl.so.2");
    nccl_load(library);
    workload_begin();
    world = member_join(library, init, member_meet(library, id_file, (int)rank), (int)rank, (int)nranks);
    if (colors)
        part = member_split(library, &world, (int)colors);
    for (uint64_t at = 0; at < stream_count; at++)
        CALL(cudaStreamCreate, &streams[at]);
    CALL(cudaMalloc, &buffer, (count + 1) * 4);
    communicate();
    // A rank that stopped early still has collectives of others to disappoint: it must not wait for them.
    if (!gate_is_stopped())
        leave(library);
    fprintf(truth_more(), ",\"rank\":%" PRIu64 ",\"nranks\":%" PRIu64 ",\"late_us\":%" PRIu64, rank, nranks,
            late_us);
    collectives_tell();
    truth_print("nccl");
    return 0;
}
