// Collectives and messages of a member.
#include "collectives.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "library.h"
#include "truth.h"

#define FUNCTIONS(EACH)                                                                                      \
    EACH(ncclAllReduce)                                                                                      \
    EACH(ncclAllReduceConfig)                                                                                \
    EACH(ncclBroadcast)                                                                                      \
    EACH(ncclBcast)                                                                                          \
    EACH(ncclReduce)                                                                                         \
    EACH(ncclAllGather)                                                                                      \
    EACH(ncclReduceScatter)                                                                                  \
    EACH(ncclAlltoAll)                                                                                       \
    EACH(ncclAllToAll)                                                                                       \
    EACH(ncclGather)                                                                                         \
    EACH(ncclScatter)                                                                                        \
    EACH(ncclSend)                                                                                           \
    EACH(ncclRecv)                                                                                           \
    EACH(ncclGroupStart)                                                                                     \
    EACH(ncclGroupEnd)

#define DECLARE(name) __typeof__(name) *name;
static struct { FUNCTIONS(DECLARE) } nccl;

enum { FLOAT = 7, SUM = 0, ROOT = 0, NONE = -1 };

// A test reads at most this many; a rank that runs for hours must not keep more.
#define MAX_LISTED (1 << 16)

static FILE *list;
static char *list_text;
static size_t list_length;
static uint64_t listed;

void collectives_load(void *library) {
#define LOAD(name) nccl.name = library_function(library, #name);
    FUNCTIONS(LOAD)
}

// `peer`: the root of a collective, or the other side of a message, which has no number.
static void note(const char *function, const struct exchange *on, int64_t seq, int redop, int peer,
                 int result) {
    if (listed++ >= MAX_LISTED)
        return;
    if (!list)
        list = open_memstream(&list_text, &list_length);
    const struct member *member = on->member;
    fprintf(list, "%s{\"op\":\"%s\",\"comm\":\"0x%" PRIx64 "\",\"hash\":\"%s\",\"rank\":%d,\"nranks\":%d",
            ftell(list) ? "," : "", function, (uint64_t)member->comm, member->hash, member->rank,
            member->nranks);
    fprintf(list, ",\"seq\":%" PRId64 ",\"count\":%zu,\"type\":%d,\"redop\":%d,\"root\":%d", seq, on->count,
            FLOAT, redop, peer);
    fprintf(list, ",\"stream\":\"0x%" PRIx64 "\",\"ret\":%d}", (uint64_t)on->stream, result);
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

void collectives_tell(void) {
    if (list)
        fflush(list);
    fprintf(truth_more(), ",\"collectives\":[%s]", list ? list_text : "");
}
