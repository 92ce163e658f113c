// nccl-all, nccl-hang: a communicator whose ranks are all in one process; one that a rank never joins.
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "../engine/clock.h"
#include "collectives.h"
#include "commands.h"
#include "gate.h"
#include "library.h"
#include "nccl_library.h"
#include "options.h"
#include "truth.h"

#define MAX_RANKS 64

static uint64_t ranks = 2, iterations = 10, count = 1024;
static uint64_t rank, nranks = 2, absent = 1;
static const char *id_file;

int command_nccl_all(char **arguments) {
    const struct option options[] = {
        NUMBER("ranks", ranks, "ranks, all of this process"),
        NUMBER("iters", iterations,
               "groups of one ncclAllReduce per rank, each followed by synchronisations"),
        NUMBER("count", count, "elements (32-bit floats)"),
        END,
    };
    options_parse("nccl-all", "all ranks of a communicator in one process", arguments, options);
    if (ranks < 1 || ranks > MAX_RANKS)
        options_refuse("nccl-all: between 1 and %d ranks", MAX_RANKS);
    void *library = library_open("libnccl.so.2");
    FUNCTION(library, ncclCommInitAll);
    FUNCTION(library, ncclGroupStart);
    FUNCTION(library, ncclGroupEnd);
    nccl_load(library);
    workload_begin();
    ncclComm_t comms[MAX_RANKS];
    struct member members[MAX_RANKS];
    cudaStream_t streams[MAX_RANKS];
    void *buffer;
    CALL(cudaMalloc, &buffer, count * 4);
    if (CALL(ncclCommInitAll, comms, (int)ranks, NULL) != ncclSuccess)
        options_refuse("nccl-all: cannot make %" PRIu64 " communicators", ranks);
    for (uint64_t at = 0; at < ranks; at++) {
        // The library draws the hash itself: nobody outside knows it.
        members[at] = (struct member){.comm = comms[at], .rank = (int)at, .nranks = (int)ranks};
        CALL(cudaStreamCreate, &streams[at]);
    }
    for (uint64_t iteration = 0; iteration < iterations && !gate_is_stopped(); iteration++) {
        CALL(ncclGroupStart);
        for (uint64_t at = 0; at < ranks; at++)
            collectives_run("allreduce", (struct exchange){&members[at], streams[at], buffer, count});
        CALL(ncclGroupEnd);
        for (uint64_t at = 0; at < ranks; at++)
            CALL(cudaStreamSynchronize, streams[at]);
    }
    for (uint64_t at = 0; at < ranks; at++) {
        member_leave(library, &members[at], false);
        CALL(cudaStreamDestroy, streams[at]);
    }
    CALL(cudaFree, buffer);
    collectives_tell();
    truth_print("nccl-all");
    return 0;
}

// The main thread hangs inside the call, so another one has to say what happened.
static void *end_when_stopped(void *arg) {
    while (!gate_is_stopped())
        sleep_ns(10000000);
    truth_print("nccl-hang");
    exit(0);
    return arg;
}

int command_nccl_hang(char **arguments) {
    const struct option options[] = {
        NUMBER("rank", rank, "this rank"),
        NUMBER("nranks", nranks, "ranks in the communicator"),
        TEXT("id-file", id_file, "where rank 0 writes the unique id and the others read it"),
        NUMBER("absent", absent, "the rank that never joins"),
        END,
    };
    options_parse("nccl-hang", "a communicator that one rank never joins", arguments, options);
    if (!id_file)
        options_refuse("nccl-hang: --id-file is needed: the file through which the ranks meet");
    if (rank >= nranks || absent >= nranks)
        options_refuse("nccl-hang: --rank and --absent are below %" PRIu64, nranks);
    void *library = library_open("libnccl.so.2");
    FUNCTION(library, ncclCommInitRank);
    workload_begin();
    ncclUniqueId id = member_meet(library, id_file, (int)rank);
    pthread_t watcher;
    if (pthread_create(&watcher, NULL, end_when_stopped, NULL) != 0)
        options_refuse("nccl-hang: cannot create a thread");
    fprintf(truth_more(), ",\"rank\":%" PRIu64 ",\"nranks\":%" PRIu64 ",\"absent\":%" PRIu64, rank, nranks,
            absent);
    ncclComm_t comm;
    if (rank != absent) {
        truth_add_unfinished(OP_ncclCommInitRank);
        ncclCommInitRank(&comm, (int)nranks, id, (int)rank);
    }
    pthread_join(watcher, NULL);
    return 0;
}
