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
    _Atomic uint32_t queued;      // collectives that calls have queued, in the order of the calls
    _Atomic uint32_t started;     // futex word: how many of those have their number
    _Atomic int in_flight;        // groups of operations on their streams
    _Atomic bool aborted;
    struct board *board;
    _Atomic uint32_t *sent, *received, *signals; // messages so far, and signals awaited, by peer
};

bool comm_is_valid(ncclComm_t comm);
// Joining is a collective itself: it returns when all ranks have come.
ncclResult_t comm_join(ncclComm_t *joined, uint64_t hash, int nranks, int rank);
// Waits until nothing of it is on a stream any more.
void comm_await_work(ncclComm_t comm);
