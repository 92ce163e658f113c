// Requests: what one call of a collective or a message asks for. Those between ncclGroupStart and
// ncclGroupEnd are queued together.
#pragma once

#include "comm.h"

enum operation {
    ALL_REDUCE = 1,
    BROADCAST,
    REDUCE,
    ALL_GATHER,
    REDUCE_SCATTER,
    ALL_TO_ALL,
    GATHER,
    SCATTER,
    // Those of two ranks are messages.
    SEND,
    RECEIVE,
    SIGNAL,
    AWAIT_SIGNAL
};

struct request {
    struct ncclComm *comm;
    CUstream stream;
    struct offer offer;
    int peer;
    uint32_t turn; // of a collective that is not captured: how many of its communicator were queued before
    uint64_t seq;  // given when it is announced
};

// Queues a request, or keeps it until the group of this thread ends.
ncclResult_t group_submit(struct request request);
