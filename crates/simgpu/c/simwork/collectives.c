// Collectives and messages of a member.
#include "collectives.h"

#include <string.h>

#include "nccl_library.h"
#include "truth.h"

enum { FLOAT = 7, SUM = 0, ROOT = 0 };

static void note(const char *function, const struct exchange *on, int64_t seq, int redop, int peer,
                 int result) {
    collectives_list((struct listed){
        .op = function,
        .member = on->member,
        .stream = on->stream,
        .count = on->count,
        .type = FLOAT,
        .redop = redop,
        .peer = peer,
        .seq = seq,
        .result = result,
    });
}

#define COLLECTIVE(name, redop, root, ...)                                                                   \
    do {                                                                                                     \
        int collective_result = COUNTED(name, nccl.name(__VA_ARGS__));                                       \
        note(#name, on, ++on->member->collectives, redop, root, collective_result);                          \
    } while (0)
#define MESSAGE(name, peer, ...)                                                                             \
    do {                                                                                                     \
        int message_result = COUNTED(name, nccl.name(__VA_ARGS__));                                          \
        note(#name, on, NONE, NONE, peer, message_result);                                                   \
    } while (0)

// The arguments that end every call.
#define ON on->member->comm, on->stream

static void all_reduce(const struct exchange *on) {
    COLLECTIVE(ncclAllReduce, SUM, NONE, on->buffer, on->buffer, on->count, FLOAT, SUM, ON);
}

static void all_reduce_config(const struct exchange *on) {
    COLLECTIVE(ncclAllReduceConfig, SUM, NONE, on->buffer, on->buffer, on->count, FLOAT, SUM, ON, NULL);
}

static void broadcast(const struct exchange *on) {
    COLLECTIVE(ncclBroadcast, NONE, ROOT, on->buffer, on->buffer, on->count, FLOAT, ROOT, ON);
}

static void bcast(const struct exchange *on) {
    COLLECTIVE(ncclBcast, NONE, ROOT, on->buffer, on->count, FLOAT, ROOT, ON);
}

static void reduce(const struct exchange *on) {
    COLLECTIVE(ncclReduce, SUM, ROOT, on->buffer, on->buffer, on->count, FLOAT, SUM, ROOT, ON);
}

static void all_gather(const struct exchange *on) {
    COLLECTIVE(ncclAllGather, NONE, NONE, on->buffer, on->buffer, on->count, FLOAT, ON);
}

static void reduce_scatter(const struct exchange *on) {
    COLLECTIVE(ncclReduceScatter, SUM, NONE, on->buffer, on->buffer, on->count, FLOAT, SUM, ON);
}

static void all_to_all(const struct exchange *on) {
    COLLECTIVE(ncclAlltoAll, NONE, NONE, on->buffer, on->buffer, on->count, FLOAT, ON);
}

static void rccl_all_to_all(const struct exchange *on) {
    COLLECTIVE(ncclAllToAll, NONE, NONE, on->buffer, on->buffer, on->count, FLOAT, ON);
}

static void gather(const struct exchange *on) {
    COLLECTIVE(ncclGather, NONE, ROOT, on->buffer, on->buffer, on->count, FLOAT, ROOT, ON);
}

static void scatter(const struct exchange *on) {
    COLLECTIVE(ncclScatter, NONE, ROOT, on->buffer, on->buffer, on->count, FLOAT, ROOT, ON);
}

static void exchange_with_neighbours(const struct exchange *on) {
    int rank = on->member->rank, nranks = on->member->nranks;
    int to = (rank + 1) % nranks, from = (rank + nranks - 1) % nranks;
    COUNTED(ncclGroupStart, nccl.ncclGroupStart());
    MESSAGE(ncclSend, to, on->buffer, on->count, FLOAT, to, ON);
    MESSAGE(ncclRecv, from, on->buffer, on->count, FLOAT, from, ON);
    COUNTED(ncclGroupEnd, nccl.ncclGroupEnd());
}

static const struct {
    const char *name;
    void (*run)(const struct exchange *on);
} operations[] = {
    {"allreduce", all_reduce},
    {"allreduceconfig", all_reduce_config},
    {"broadcast", broadcast},
    {"bcast", bcast},
    {"reduce", reduce},
    {"allgather", all_gather},
    {"reducescatter", reduce_scatter},
    {"alltoall", all_to_all},
    {"gather", gather},
    {"scatter", scatter},
    {"sendrecv", exchange_with_neighbours},
    // Not part of all: no library has both spellings.
    {"rccl-alltoall", rccl_all_to_all},
};

enum { OPERATIONS = sizeof operations / sizeof *operations, IN_ALL = OPERATIONS - 1 };

bool collectives_know(const char *operation) {
    for (int at = 0; at < OPERATIONS; at++)
        if (strcmp(operations[at].name, operation) == 0)
            return true;
    return strcmp(operation, "all") == 0;
}

void collectives_run(const char *operation, struct exchange exchange) {
    bool all = strcmp(operation, "all") == 0;
    for (int at = 0; at < OPERATIONS; at++)
        if (all ? at < IN_ALL : strcmp(operations[at].name, operation) == 0)
            operations[at].run(&exchange);
}
