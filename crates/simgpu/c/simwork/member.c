// A rank's place in a communicator.
#include "member.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "../nccl/hash.h"
#include "gate.h"
#include "library.h"
#include "options.h"
#include "truth.h"

static void write_id(const ncclUniqueId *id, const char *path) {
    char unfinished[4096];
    snprintf(unfinished, sizeof unfinished, "%s.part", path);
    FILE *file = fopen(unfinished, "w");
    if (!file || fwrite(id, sizeof *id, 1, file) != 1 || fclose(file) != 0 || rename(unfinished, path) != 0)
        options_refuse("cannot write %s", path);
}

static void read_id(ncclUniqueId *id, const char *path) {
    gate_await_file(path);
    FILE *file = fopen(path, "r");
    if (!file || fread(id, sizeof *id, 1, file) != 1)
        options_refuse("cannot read %s", path);
    fclose(file);
}

ncclUniqueId member_meet(void *nccl, const char *file, int rank) {
    FUNCTION(nccl, ncclGetUniqueId);
    ncclUniqueId id;
    if (rank == 0) {
        ncclGetUniqueId(&id);
        write_id(&id, file);
    } else {
        read_id(&id, file);
    }
    return id;
}

bool member_knows_way(const char *how) {
    return strcmp(how, "rank") == 0 || strcmp(how, "config") == 0 || strcmp(how, "scalable") == 0;
}

struct member member_of(ncclComm_t comm, uint64_t hash, int rank, int nranks) {
    struct member member = {.comm = comm, .hash_value = hash, .rank = rank, .nranks = nranks};
    snprintf(member.hash, sizeof member.hash, "0x%" PRIx64, hash);
    return member;
}

struct member member_join(void *nccl, const char *how, ncclUniqueId id, int rank, int nranks) {
    FUNCTION(nccl, ncclCommInitRank);
    FUNCTION(nccl, ncclCommInitRankConfig);
    FUNCTION(nccl, ncclCommInitRankScalable);
    ncclComm_t comm;
    int error;
    if (strcmp(how, "rank") == 0)
        error = CALL(ncclCommInitRank, &comm, nranks, id, rank);
    else if (strcmp(how, "config") == 0)
        error = CALL(ncclCommInitRankConfig, &comm, nranks, id, rank, NULL);
    else
        error = CALL(ncclCommInitRankScalable, &comm, nranks, rank, 1, &id, NULL);
    if (error)
        options_refuse("nccl: cannot join the communicator (%d)", error);
    return member_of(comm, hash_of_id(&id), rank, nranks);
}

struct member member_split(void *nccl, const struct member *parent, int colors) {
    FUNCTION(nccl, ncclCommSplit);
    ncclComm_t comm;
    int color = parent->rank % colors;
    int error = CALL(ncclCommSplit, parent->comm, color, parent->rank, &comm, NULL);
    if (error)
        options_refuse("nccl: cannot split the communicator (%d)", error);
    return member_of(comm, hash_of_split(parent->hash_value, 1, color), parent->rank / colors,
                     (parent->nranks - color + colors - 1) / colors);
}

void member_leave(void *nccl, struct member *member, bool abort) {
    FUNCTION(nccl, ncclCommFinalize);
    FUNCTION(nccl, ncclCommDestroy);
    FUNCTION(nccl, ncclCommAbort);
    if (abort) {
        CALL(ncclCommAbort, member->comm);
    } else {
        CALL(ncclCommFinalize, member->comm);
        CALL(ncclCommDestroy, member->comm);
    }
}
