// A rank's place in a communicator: how it joins, splits off and leaves.
#pragma once

#include <stdbool.h>

#include "../nccl/nccl.h"

struct member {
    ncclComm_t comm;
    char hash[20]; // as the truth tells it; empty where nobody outside the library knows it
    uint64_t hash_value;
    int rank, nranks;
    int64_t collectives; // called so far
};

struct member member_of(ncclComm_t comm, uint64_t hash, int rank, int nranks);

// The unique id through which ranks meet: rank 0 makes it and writes `file`, the others wait for that.
ncclUniqueId member_meet(void *nccl, const char *file, int rank);

// Whether `how` names a way to join: rank, config or scalable.
bool member_knows_way(const char *how);
struct member member_join(void *nccl, const char *how, ncclUniqueId id, int rank, int nranks);
// Joins the ranks of `parent` that share rank % colors, in their order.
struct member member_split(void *nccl, const struct member *parent, int colors);
// Destroys the communicator after its work, or aborts it.
void member_leave(void *nccl, struct member *member, bool abort);
