// Collectives and messages of a member, and the list of them in the truth.
#pragma once

#include "kernels.h"
#include "member.h"

// Where an operation happens, and on what.
struct exchange {
    struct member *member;
    cudaStream_t stream;
    void *buffer;
    size_t count; // 32-bit floats
};

#define COLLECTIVES                                                                                          \
    "allreduce, allreduceconfig, broadcast, bcast, reduce, allgather, reducescatter, alltoall, "             \
    "rccl-alltoall, gather, scatter, sendrecv or all (each once, but for RCCL's)"

void collectives_load(void *nccl);
bool collectives_know(const char *operation);
void collectives_run(const char *operation, struct exchange exchange);
// Writes the list of all calls so far as a member of the truth.
void collectives_tell(void);
