// A communicator of the stand-in.
#pragma once

#include "board.h"
#include "nccl.h"

struct ncclComm {
    uint32_t magic;
    int rank;
    int nranks;
    uint64_t hash;
    uint64_t splits;
    _Atomic uint64_t collectives; // numbers given to collectives so far
    _Atomic int in_flight;        // groups of operations on their streams
    _Atomic bool aborted;
    struct board *board;
    uint32_t *sent, *received; // messages so far, by peer
};

bool comm_is_valid(ncclComm_t comm);
