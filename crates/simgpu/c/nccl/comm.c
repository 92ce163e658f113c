// Communicators of the stand-in: made and finished.
#include "comm.h"

#include <stdlib.h>
#include <sys/random.h>

#include "../engine/clock.h"
#include "hash.h"

#define MAGIC 0x2cc10000u
#define VERSION 22800

bool comm_is_valid(ncclComm_t comm) {
    return comm && comm->magic == MAGIC;
}

ncclResult_t ncclGetVersion(int *version) {
    *version = VERSION;
    return ncclSuccess;
}

ncclResult_t ncclGetUniqueId(ncclUniqueId *id) {
    return getrandom(id->internal, sizeof id->internal, 0) == sizeof id->internal ? ncclSuccess
                                                                                  : ncclSystemError;
}

const char *ncclGetErrorString(ncclResult_t result) {
    static const char *const texts[] = {
        "no error",         "unhandled cuda error", "unhandled system error", "internal error",
        "invalid argument", "invalid usage",        "remote process exited",  "NCCL operation in progress",
    };
    return (unsigned)result < sizeof texts / sizeof *texts ? texts[result] : "unknown result code";
}

static struct ncclComm *create(uint64_t hash, int nranks, int rank) {
    struct ncclComm *comm = calloc(1, sizeof *comm);
    if (!comm)
        return NULL;
    *comm = (struct ncclComm){.magic = MAGIC, .rank = rank, .nranks = nranks, .hash = hash};
    // One piece, in three parts.
    comm->sent = calloc((size_t)nranks * 3, sizeof *comm->sent);
    comm->received = comm->sent + nranks;
    comm->signals = comm->received + nranks;
    comm->board = comm->sent ? board_open(hash, nranks) : NULL;
    if (comm->board)
        return comm;
    free(comm->sent);
    free(comm);
    return NULL;
}

static _Atomic uint64_t joining; // hash of the communicator that a thread waits to join, else zero

// A program that ends while it still waits for a rank leaves no board behind.
__attribute__((destructor)) static void forget_unfinished(void) {
    if (joining)
        board_forget_name(joining);
}

ncclResult_t comm_join(ncclComm_t *joined, uint64_t hash, int nranks, int rank) {
    if (!joined || nranks < 1 || nranks > BOARD_MAX_RANKS || rank < 0 || rank >= nranks)
        return ncclInvalidArgument;
    struct ncclComm *comm = create(hash, nranks, rank);
    if (!comm)
        return ncclSystemError;
    joining = hash;
    board_meet(comm->board, rank, &comm->aborted);
    joining = 0;
    board_forget_name(hash);
    *joined = comm;
    return ncclSuccess;
}

ncclResult_t ncclCommInitRank(ncclComm_t *comm, int nranks, ncclUniqueId id, int rank) {
    return comm_join(comm, hash_of_id(&id), nranks, rank);
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t *comm, int nranks, ncclUniqueId id, int rank,
                                    ncclConfig_t *config) {
    (void)config;
    return comm_join(comm, hash_of_id(&id), nranks, rank);
}

// Only the first id says who meets whom; the real library bootstraps through the others too.
ncclResult_t ncclCommInitRankScalable(ncclComm_t *comm, int nranks, int rank, int idCount, ncclUniqueId *ids,
                                      ncclConfig_t *config) {
    (void)config;
    return ids && idCount > 0 ? comm_join(comm, hash_of_id(&ids[0]), nranks, rank) : ncclInvalidArgument;
}

ncclResult_t ncclCommInitAll(ncclComm_t *comms, int count, const int *devices) {
    (void)devices;
    if (!comms || count < 1 || count > BOARD_MAX_RANKS)
        return ncclInvalidArgument;
    uint64_t hash;
    if (getrandom(&hash, sizeof hash, 0) != sizeof hash)
        return ncclSystemError;
    for (int rank = 0; rank < count; rank++) {
        comms[rank] = create(hash, count, rank);
        if (!comms[rank])
            return ncclSystemError;
    }
    board_forget_name(hash);
    return ncclSuccess;
}

void comm_await_work(ncclComm_t comm) {
    while (comm->in_flight)
        sleep_ns(100000);
}

ncclResult_t ncclCommFinalize(ncclComm_t comm) {
    if (!comm_is_valid(comm))
        return ncclInvalidArgument;
    comm_await_work(comm);
    return ncclSuccess;
}

static ncclResult_t destroy(ncclComm_t comm) {
    if (!comm_is_valid(comm))
        return ncclInvalidArgument;
    comm_await_work(comm);
    comm->magic = 0;
    board_close(comm->board);
    free(comm->sent);
    free(comm);
    return ncclSuccess;
}

ncclResult_t ncclCommDestroy(ncclComm_t comm) {
    return destroy(comm);
}

ncclResult_t ncclCommAbort(ncclComm_t comm) {
    if (!comm_is_valid(comm))
        return ncclInvalidArgument;
    comm->aborted = true;
    return destroy(comm);
}

// Tools read in the code of these two at which offsets a communicator keeps its size and its rank, so they
// stay plain reads of a field.
ncclResult_t ncclCommCount(ncclComm_t comm, int *count) {
    if (!comm_is_valid(comm))
        return ncclInvalidArgument;
    *count = comm->nranks;
    return ncclSuccess;
}

ncclResult_t ncclCommUserRank(ncclComm_t comm, int *rank) {
    if (!comm_is_valid(comm))
        return ncclInvalidArgument;
    *rank = comm->rank;
    return ncclSuccess;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *error) {
    if (!comm_is_valid(comm))
        return ncclInvalidArgument;
    *error = ncclSuccess;
    return ncclSuccess;
}
