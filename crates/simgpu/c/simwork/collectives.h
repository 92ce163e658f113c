// Collectives and messages of a member.
#pragma once

#include "collective_list.h"
#include "kernels.h"

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

bool collectives_know(const char *operation);
void collectives_run(const char *operation, struct exchange exchange);
