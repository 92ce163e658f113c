// Communicators of the stand-in that are made from others.
#include "comm.h"
#include "hash.h"

ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t *split, ncclConfig_t *config) {
    (void)config;
    if (!comm_is_valid(comm) || !split || color < NCCL_SPLIT_NOCOLOR)
        return ncclInvalidArgument;
    struct wish *wishes = board_wishes(comm->board);
    wishes[comm->rank] = (struct wish){.color = color, .key = key};
    if (!board_meet(comm->board, comm->rank, &comm->aborted))
        return ncclInternalError;
    int rank = 0, nranks = 0;
    for (int other = 0; other < comm->nranks; other++) {
        if (wishes[other].color != color)
            continue;
        nranks++;
        rank += wishes[other].key < key || (wishes[other].key == key && other < comm->rank);
    }
    // Nobody may write the wishes of the next split before all have read these.
    if (!board_meet(comm->board, comm->rank, &comm->aborted))
        return ncclInternalError;
    uint64_t hash = hash_of_split(comm->hash, ++comm->splits, color);
    *split = NULL;
    return color == NCCL_SPLIT_NOCOLOR ? ncclSuccess : comm_join(split, hash, nranks, rank);
}

// Those that are left out do not call it, so nobody can wait for all ranks of the parent here.
ncclResult_t ncclCommShrink(ncclComm_t comm, int *excluded, int excludedCount, ncclComm_t *shrunk,
                            ncclConfig_t *config, int flags) {
    (void)config;
    if (!comm_is_valid(comm) || !shrunk || excludedCount < 1 || !excluded)
        return ncclInvalidArgument;
    int rank = comm->rank;
    for (int at = 0; at < excludedCount; at++) {
        if (excluded[at] < 0 || excluded[at] >= comm->nranks || excluded[at] == comm->rank)
            return ncclInvalidArgument;
        rank -= excluded[at] < comm->rank;
    }
    if (flags & NCCL_SHRINK_ABORT) {
        comm->aborted = true;
        comm_await_work(comm);
        comm->aborted = false;
    }
    uint64_t hash = hash_of_shrink(comm->hash, ++comm->splits);
    return comm_join(shrunk, hash, comm->nranks - excludedCount, rank);
}
