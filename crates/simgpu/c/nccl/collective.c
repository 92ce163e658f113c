// Collectives of the stand-in.
#include "group.h"

static ncclResult_t collective(enum operation operation, size_t count, ncclDataType_t type, ncclComm_t comm,
                               CUstream stream) {
    return group_submit((struct request){
        .comm = comm,
        .stream = stream,
        .offer = {.operation = operation, .type = (uint32_t)type, .count = count},
    });
}

#define COLLECTIVE(name, operation, ...)                                                                     \
    ncclResult_t name(BUFFERS, __VA_ARGS__) {                                                                \
        (void)from, (void)to;                                                                                \
        return collective(operation, count, type, comm, stream);                                             \
    }                                                                                                        \
    ncclResult_t name##Config(BUFFERS, __VA_ARGS__, const ncclCollConfig_t *config) {                        \
        (void)from, (void)to, (void)config;                                                                  \
        return collective(operation, count, type, comm, stream);                                             \
    }

#define UNUSED __attribute__((unused))

COLLECTIVE(ncclAllReduce, ALL_REDUCE, UNUSED ncclRedOp_t op, PLACE)
COLLECTIVE(ncclReduceScatter, REDUCE_SCATTER, UNUSED ncclRedOp_t op, PLACE)
COLLECTIVE(ncclReduce, REDUCE, UNUSED ncclRedOp_t op, UNUSED int root, PLACE)
COLLECTIVE(ncclBroadcast, BROADCAST, UNUSED int root, PLACE)
COLLECTIVE(ncclGather, GATHER, UNUSED int root, PLACE)
COLLECTIVE(ncclScatter, SCATTER, UNUSED int root, PLACE)
COLLECTIVE(ncclAllGather, ALL_GATHER, PLACE)
COLLECTIVE(ncclAlltoAll, ALL_TO_ALL, PLACE)

ncclResult_t ncclAllToAll(BUFFERS, PLACE) {
    (void)from, (void)to;
    return collective(ALL_TO_ALL, count, type, comm, stream);
}

// Calls the other, as the real one does.
ncclResult_t ncclBcast(void *buffer, size_t count, ncclDataType_t type, int root, PLACE) {
    return ncclBroadcast(buffer, buffer, count, type, root, comm, stream);
}
