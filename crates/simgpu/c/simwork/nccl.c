// nccl: one rank of a communicator. Started once per rank; the ranks meet through a file with the unique id.
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "../engine/clock.h"
#include "../nccl/nccl.h"
#include "commands.h"
#include "gate.h"
#include "kernels.h"
#include "library.h"
#include "options.h"
#include "truth.h"

static uint64_t rank, nranks = 2, iterations = 10, late_us, count = 1024, stop_at, mismatch_at, step_us;
static const char *id_file, *operation = "allreduce", *init = "config";

static struct {
    __typeof__(ncclAllReduce) *all_reduce;
    __typeof__(ncclBroadcast) *broadcast;
    __typeof__(ncclReduce) *reduce;
    __typeof__(ncclAllGather) *all_gather;
    __typeof__(ncclReduceScatter) *reduce_scatter;
    __typeof__(ncclAllToAll) *all_to_all;
    __typeof__(ncclSend) *send;
    __typeof__(ncclRecv) *receive;
    __typeof__(ncclGroupStart) *group_start;
    __typeof__(ncclGroupEnd) *group_end;
} nccl;

enum { FLOAT = 7, SUM = 0 };

static ncclComm_t comm;
static cudaStream_t stream;
static void *buffer;

static void write_id(const ncclUniqueId *id) {
    char unfinished[4096];
    snprintf(unfinished, sizeof unfinished, "%s.part", id_file);
    FILE *file = fopen(unfinished, "w");
    if (!file || fwrite(id, sizeof *id, 1, file) != 1 || fclose(file) != 0 ||
        rename(unfinished, id_file) != 0)
        options_refuse("cannot write %s", id_file);
}

static void read_id(ncclUniqueId *id) {
    gate_await_file(id_file);
    FILE *file = fopen(id_file, "r");
    if (!file || fread(id, sizeof *id, 1, file) != 1)
        options_refuse("cannot read %s", id_file);
    fclose(file);
}

static void exchange_with_neighbours(size_t elements) {
    int to = (int)((rank + 1) % nranks), from = (int)((rank + nranks - 1) % nranks);
    COUNTED(ncclGroupStart, nccl.group_start());
    COUNTED(ncclSend, nccl.send(buffer, elements, FLOAT, to, comm, stream));
    COUNTED(ncclRecv, nccl.receive(buffer, elements, FLOAT, from, comm, stream));
    COUNTED(ncclGroupEnd, nccl.group_end());
}

__attribute__((noinline)) void nccl_communicate(size_t elements) {
    if (strcmp(operation, "allreduce") == 0)
        COUNTED(ncclAllReduce, nccl.all_reduce(buffer, buffer, elements, FLOAT, SUM, comm, stream));
    else if (strcmp(operation, "broadcast") == 0)
        COUNTED(ncclBroadcast, nccl.broadcast(buffer, buffer, elements, FLOAT, 0, comm, stream));
    else if (strcmp(operation, "reduce") == 0)
        COUNTED(ncclReduce, nccl.reduce(buffer, buffer, elements, FLOAT, SUM, 0, comm, stream));
    else if (strcmp(operation, "allgather") == 0)
        COUNTED(ncclAllGather, nccl.all_gather(buffer, buffer, elements, FLOAT, comm, stream));
    else if (strcmp(operation, "reducescatter") == 0)
        COUNTED(ncclReduceScatter, nccl.reduce_scatter(buffer, buffer, elements, FLOAT, SUM, comm, stream));
    else if (strcmp(operation, "alltoall") == 0)
        COUNTED(ncclAllToAll, nccl.all_to_all(buffer, buffer, elements, FLOAT, comm, stream));
    else
        exchange_with_neighbours(elements);
}

static void check_names(void) {
    static const char *const operations[] = {"allreduce",     "broadcast", "reduce",  "allgather",
                                             "reducescatter", "alltoall",  "sendrecv"};
    bool known = false;
    for (size_t at = 0; at < sizeof operations / sizeof *operations; at++)
        known |= strcmp(operations[at], operation) == 0;
    if (!known)
        options_refuse("nccl: there is no operation \"%s\" (see simwork nccl --help)", operation);
    if (strcmp(init, "rank") != 0 && strcmp(init, "config") != 0)
        options_refuse("nccl: --init is rank or config, not \"%s\"", init);
    if (!id_file)
        options_refuse("nccl: --id-file is needed: the file through which the ranks meet");
    if (rank >= nranks)
        options_refuse("nccl: rank %" PRIu64 " is not below %" PRIu64, rank, nranks);
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
        if (late_us)
            sleep_ns(late_us * 1000);
        uint64_t begin = now_ns();
        nccl_communicate(iteration + 1 == mismatch_at ? count + 1 : count);
        uint64_t called = now_ns();
        CALL(cudaStreamSynchronize, stream);
        uint64_t took_ns = now_ns() - called;
        call_ns += called - begin;
        sync_ns += took_ns;
        slowest_sync_ns = took_ns > slowest_sync_ns ? took_ns : slowest_sync_ns;
    }
    fprintf(truth_more(), ",\"iterations\":%" PRIu64 ",\"call_ns\":%" PRIu64 ",\"sync_ns\":%" PRIu64,
            iteration, call_ns, sync_ns);
    fprintf(truth_more(), ",\"slowest_sync_ns\":%" PRIu64, slowest_sync_ns);
}

int command_nccl(char **arguments) {
    const struct option options[] = {
        NUMBER("rank", rank, "this rank"),
        NUMBER("nranks", nranks, "ranks in the communicator"),
        TEXT("id-file", id_file, "where rank 0 writes the unique id and the others read it"),
        NUMBER("iters", iterations, "collectives, each followed by a synchronisation"),
        TEXT("op", operation, "allreduce, broadcast, reduce, allgather, reducescatter, alltoall or sendrecv"),
        NUMBER("count", count, "elements (32-bit floats)"),
        TEXT("init", init, "rank (ncclCommInitRank) or config (ncclCommInitRankConfig)"),
        NUMBER("step-us", step_us, "other work before each collective, on every rank"),
        NUMBER("late-us", late_us, "sleep before each collective: this rank is late"),
        NUMBER("stop-at", stop_at, "never reach the Nth collective: this rank is missing"),
        NUMBER("mismatch-at", mismatch_at, "in the Nth collective use another count than the others"),
        END,
    };
    options_parse("nccl", "one rank of a communicator", arguments, options);
    check_names();
    void *library = library_open("libnccl.so.2");
    nccl.all_reduce = library_function(library, "ncclAllReduce");
    nccl.broadcast = library_function(library, "ncclBroadcast");
    nccl.reduce = library_function(library, "ncclReduce");
    nccl.all_gather = library_function(library, "ncclAllGather");
    nccl.reduce_scatter = library_function(library, "ncclReduceScatter");
    nccl.all_to_all = library_function(library, "ncclAllToAll");
    nccl.send = library_function(library, "ncclSend");
    nccl.receive = library_function(library, "ncclRecv");
    nccl.group_start = library_function(library, "ncclGroupStart");
    nccl.group_end = library_function(library, "ncclGroupEnd");
    FUNCTION(library, ncclGetUniqueId);
    FUNCTION(library, ncclCommInitRank);
    FUNCTION(library, ncclCommInitRankConfig);
    FUNCTION(library, ncclCommFinalize);
    FUNCTION(library, ncclCommDestroy);
    workload_begin();
    ncclUniqueId id;
    if (rank == 0) {
        ncclGetUniqueId(&id);
        write_id(&id);
    } else {
        read_id(&id);
    }
    int error = strcmp(init, "rank") == 0
                    ? CALL(ncclCommInitRank, &comm, (int)nranks, id, (int)rank)
                    : CALL(ncclCommInitRankConfig, &comm, (int)nranks, id, (int)rank, NULL);
    if (error)
        options_refuse("nccl: cannot join the communicator (%d)", error);
    CALL(cudaStreamCreate, &stream);
    CALL(cudaMalloc, &buffer, (count + 1) * 4);
    communicate();
    // A rank that stopped early still has collectives of others to disappoint: it must not wait for them.
    if (!gate_is_stopped()) {
        CALL(ncclCommFinalize, comm);
        CALL(ncclCommDestroy, comm);
        CALL(cudaFree, buffer);
        CALL(cudaStreamDestroy, stream);
    }
    fprintf(truth_more(), ",\"rank\":%" PRIu64 ",\"nranks\":%" PRIu64 ",\"late_us\":%" PRIu64, rank, nranks,
            late_us);
    truth_print("nccl");
    return 0;
}
