// nccl-mixed: every probed function of NCCL, each with arguments of its own, in the manner of mixed. The list
// "collectives" in the output has all of them, in the order of their calls.
#include <pthread.h>
#include <stdio.h>

#include "../engine/clock.h"
#include "../nccl/hash.h"
#include "collective_list.h"
#include "commands.h"
#include "kernels.h"
#include "library.h"
#include "nccl_library.h"
#include "options.h"
#include "truth.h"

#define FLAGS 0
#define ALL 2
#define CREW 3
#define CREW_RANK 1

static uint64_t linger_ms = 500;

// `world` has this rank alone, and is what collectives are called on. `crew` has two more, which join and do
// nothing else: messages and signals need a rank that is not 0, and shrinking somebody to leave out.
static struct member world, crew, scalable, split, shrunk, all[ALL];
static ncclUniqueId crew_id;
static cudaStream_t stream;
static void *buffer;

// ---- how calls are listed

#define LIST(name, call, ...)                                                                                \
    do {                                                                                                     \
        int list_result = COUNTED(name, call);                                                               \
        collectives_list((struct listed){.op = #name, .result = list_result, __VA_ARGS__});                  \
    } while (0)
// A call about a communicator, or about none.
#define OTHER(name, member_, ...)                                                                            \
    LIST(name, nccl.name(__VA_ARGS__), .member = member_, .type = NONE, .redop = NONE, .peer = NONE,         \
         .seq = NONE)
#define COLLECTIVE(name, count_, type_, redop_, root, ...)                                                   \
    LIST(name, nccl.name(__VA_ARGS__), .member = &world, .stream = stream, .count = count_, .type = type_,   \
         .redop = redop_, .peer = root, .seq = ++world.collectives)
#define MESSAGE(name, count_, type_, peer_, ...)                                                             \
    LIST(name, nccl.name(__VA_ARGS__), .member = &crew, .stream = stream, .count = count_, .type = type_,    \
         .redop = NONE, .peer = peer_, .seq = NONE)

// ---- communicators

static void *join_crew(void *rank) {
    ncclComm_t comm;
    COUNTED(ncclCommInitRank, nccl.ncclCommInitRank(&comm, CREW, crew_id, *(const int *)rank));
    return comm;
}

static void make_crew(void) {
    static const int others[CREW - 1] = {0, CREW - 1};
    pthread_t threads[CREW - 1];
    for (int at = 0; at < CREW - 1; at++)
        if (pthread_create(&threads[at], NULL, join_crew, (void *)&others[at]) != 0)
            options_refuse("nccl-mixed: cannot create a thread");
    crew = member_of(NULL, hash_of_id(&crew_id), CREW_RANK, CREW);
    OTHER(ncclCommInitRank, &crew, &crew.comm, CREW, crew_id, CREW_RANK);
    for (int at = 0; at < CREW - 1; at++)
        pthread_join(threads[at], NULL);
}

// The library draws the hash itself: nobody outside knows it.
static void make_all(void) {
    ncclComm_t comms[ALL];
    int result = COUNTED(ncclCommInitAll, nccl.ncclCommInitAll(comms, ALL, NULL));
    for (int rank = 0; rank < ALL; rank++)
        all[rank] = (struct member){.comm = comms[rank], .rank = rank, .nranks = ALL};
    collectives_list((struct listed){
        .op = "ncclCommInitAll",
        .member = &all[0],
        .type = NONE,
        .redop = NONE,
        .peer = NONE,
        .seq = NONE,
        .result = result,
    });
}

static void make_communicators(void *library) {
    FUNCTION(library, ncclGetUniqueId);
    enum { COLOR = 5, KEY = 3 };
    static char config[256]; // the stand-in does not look into it
    int left_out[] = {0, 2};
    ncclUniqueId id;
    ncclGetUniqueId(&crew_id);
    make_crew();
    ncclGetUniqueId(&id);
    world = member_of(NULL, hash_of_id(&id), 0, 1);
    OTHER(ncclCommInitRankConfig, &world, &world.comm, 1, id, 0, (ncclConfig_t *)config);
    ncclGetUniqueId(&id);
    scalable = member_of(NULL, hash_of_id(&id), 0, 1);
    OTHER(ncclCommInitRankScalable, &scalable, &scalable.comm, 1, 0, 1, &id, NULL);
    make_all();
    split = member_of(NULL, hash_of_split(world.hash_value, 1, COLOR), 0, 1);
    OTHER(ncclCommSplit, &split, world.comm, COLOR, KEY, &split.comm, NULL);
    shrunk = member_of(NULL, hash_of_shrink(crew.hash_value, 1), 0, 1);
    OTHER(ncclCommShrink, &shrunk, crew.comm, left_out, 2, &shrunk.comm, NULL, FLAGS);
}

static void end_communicators(void) {
    OTHER(ncclCommFinalize, &world, world.comm);
    OTHER(ncclCommDestroy, &split, split.comm);
    OTHER(ncclCommDestroy, &shrunk, shrunk.comm);
    OTHER(ncclCommDestroy, &scalable, scalable.comm);
    OTHER(ncclCommDestroy, &all[0], all[0].comm);
    OTHER(ncclCommDestroy, &all[1], all[1].comm);
    OTHER(ncclCommDestroy, &world, world.comm);
    OTHER(ncclCommAbort, &crew, crew.comm);
}

// ---- work

// As NCCL numbers them.
enum { INT8, UINT8, INT32, UINT32, INT64, UINT64, HALF, FLOAT, DOUBLE, BFLOAT16, FLOAT8_E4M3, FLOAT8_E5M2 };
enum { SUM, PROD, MAX, MIN, AVG };

#define ON world.comm, stream

static void collectives(void) {
    void *to = (char *)buffer + 4096;
    COLLECTIVE(ncclAllReduce, 101, FLOAT, PROD, NONE, buffer, to, 101, FLOAT, PROD, ON);
    COLLECTIVE(ncclAllReduceConfig, 102, HALF, MAX, NONE, buffer, to, 102, HALF, MAX, ON, NULL);
    COLLECTIVE(ncclReduceScatter, 103, DOUBLE, MIN, NONE, buffer, to, 103, DOUBLE, MIN, ON);
    COLLECTIVE(ncclReduceScatterConfig, 104, BFLOAT16, AVG, NONE, buffer, to, 104, BFLOAT16, AVG, ON, NULL);
    COLLECTIVE(ncclReduce, 105, INT32, PROD, 0, buffer, to, 105, INT32, PROD, 0, ON);
    COLLECTIVE(ncclReduceConfig, 106, UINT32, MAX, 0, buffer, to, 106, UINT32, MAX, 0, ON, NULL);
    COLLECTIVE(ncclBroadcast, 107, INT64, NONE, 0, buffer, to, 107, INT64, 0, ON);
    COLLECTIVE(ncclBroadcastConfig, 108, UINT64, NONE, 0, buffer, to, 108, UINT64, 0, ON, NULL);
    COLLECTIVE(ncclBcast, 109, UINT8, NONE, 0, buffer, 109, UINT8, 0, ON);
    COLLECTIVE(ncclGather, 110, FLOAT8_E4M3, NONE, 0, buffer, to, 110, FLOAT8_E4M3, 0, ON);
    COLLECTIVE(ncclGatherConfig, 111, FLOAT8_E5M2, NONE, 0, buffer, to, 111, FLOAT8_E5M2, 0, ON, NULL);
    COLLECTIVE(ncclScatter, 112, FLOAT, NONE, 0, buffer, to, 112, FLOAT, 0, ON);
    COLLECTIVE(ncclScatterConfig, 113, HALF, NONE, 0, buffer, to, 113, HALF, 0, ON, NULL);
    COLLECTIVE(ncclAllGather, 114, DOUBLE, NONE, NONE, buffer, to, 114, DOUBLE, ON);
    COLLECTIVE(ncclAllGatherConfig, 115, INT8, NONE, NONE, buffer, to, 115, INT8, ON, NULL);
    COLLECTIVE(ncclAlltoAll, 116, BFLOAT16, NONE, NONE, buffer, to, 116, BFLOAT16, ON);
    COLLECTIVE(ncclAlltoAllConfig, 117, INT32, NONE, NONE, buffer, to, 117, INT32, ON, NULL);
    COLLECTIVE(ncclAllToAll, 118, UINT32, NONE, NONE, buffer, to, 118, UINT32, ON);
}

#undef ON
#define ON crew.comm, stream

// To and from this rank, but for data that nobody has to await.
static void messages(void) {
    enum { OTHER_RANK = 2, SIGNAL = 0, CONTEXT = 0, OFFSET = 0x40 };
    // No window that the stand-in could look into.
    ncclWindow_t window = (ncclWindow_t)buffer;
    ncclWaitSignalDesc_t own = {.opCnt = 1, .peer = CREW_RANK, .sigIdx = SIGNAL, .ctx = CONTEXT};
    OTHER(ncclGroupStart, NULL);
    MESSAGE(ncclSend, 201, FLOAT, CREW_RANK, buffer, 201, FLOAT, CREW_RANK, ON);
    MESSAGE(ncclRecv, 202, HALF, CREW_RANK, buffer, 202, HALF, CREW_RANK, ON);
    OTHER(ncclGroupEnd, NULL);
    MESSAGE(ncclPutSignal, 203, DOUBLE, OTHER_RANK, buffer, 203, DOUBLE, OTHER_RANK, window, OFFSET, SIGNAL,
            CONTEXT, FLAGS, ON);
    MESSAGE(ncclSignal, 0, NONE, CREW_RANK, CREW_RANK, SIGNAL, CONTEXT, FLAGS, ON);
    MESSAGE(ncclWaitSignal, 0, NONE, NONE, 1, &own, ON);
}

int command_nccl_mixed(char **arguments) {
    const struct option options[] = {
        NUMBER("linger-ms", linger_ms,
               "keep the communicators so long: tools read in them what no call tells"),
        END,
    };
    options_parse("nccl-mixed", "every probed function of NCCL, with distinct arguments", arguments, options);
    void *library = library_open("libnccl.so.2");
    nccl_load(library);
    workload_begin();
    CALL(cudaStreamCreate, &stream);
    CALL(cudaMalloc, &buffer, 1 << 16);
    make_communicators(library);
    collectives();
    messages();
    CALL(cudaStreamSynchronize, stream);
    sleep_ns(linger_ms * 1000000);
    end_communicators();
    CALL(cudaFree, buffer);
    CALL(cudaStreamDestroy, stream);
    collectives_tell();
    truth_print("nccl-mixed");
    return 0;
}
