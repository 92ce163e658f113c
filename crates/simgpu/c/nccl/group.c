// Requests and groups of them. A call only queues: on the stream's thread the messages of one group are all
// announced first and then awaited, so that ranks which send to each other do not block each other.
//
// The real library launches a kernel (cuLaunchKernelEx) where this one queues code by simgpu_enqueue: a
// kernel of the stand-in cannot wait for other ranks. So no launch shows inside a collective.
#include "group.h"

#include <stdlib.h>

#include "../engine/clock.h"

// How often a collective that waits for its turn looks whether its communicator was aborted.
#define ABORT_POLL_NS 100000000

// The requests of a group that go to one stream.
struct batch {
    size_t count;
    bool captured; // belongs to a graph: runs again with every replay
    struct request requests[];
};

static __thread int group_depth;
static __thread struct request *grouped;
static __thread size_t grouped_count, grouped_capacity;

static void announce(struct request *request) {
    struct ncclComm *comm = request->comm;
    switch (request->offer.operation) {
    case SEND:
        request->seq = ++comm->sent[request->peer];
        board_post_send(comm->board, comm->rank, request->peer);
        break;
    case RECEIVE:
        request->seq = ++comm->received[request->peer];
        board_post_receive(comm->board, request->peer, comm->rank);
        break;
    case SIGNAL:
        board_post_signal(comm->board, comm->rank, request->peer);
        break;
    case AWAIT_SIGNAL:
        comm->signals[request->peer] += (uint32_t)request->offer.count;
        request->seq = comm->signals[request->peer];
        break;
    default:
        request->seq = ++comm->collectives;
        board_arrive(comm->board, comm->rank, request->seq, request->offer);
    }
}

static void await(struct request *request) {
    struct ncclComm *comm = request->comm;
    switch (request->offer.operation) {
    case SEND:
        board_await_pair(comm->board, comm->rank, request->peer, (uint32_t)request->seq, &comm->aborted);
        break;
    case RECEIVE:
        board_await_pair(comm->board, request->peer, comm->rank, (uint32_t)request->seq, &comm->aborted);
        break;
    case SIGNAL:
        break;
    case AWAIT_SIGNAL:
        board_await_signals(comm->board, request->peer, comm->rank, (uint32_t)request->seq, &comm->aborted);
        break;
    default:
        board_await_all(comm->board, comm->rank, request->seq, &comm->aborted);
    }
}

static bool is_message(const struct request *request) {
    return request->offer.operation >= SEND;
}

// Collectives of one communicator start in the order of the calls on all streams, else ranks whose streams
// run differently would number them differently.
static void start_in_turn(struct request *request, bool captured) {
    struct ncclComm *comm = request->comm;
    uint32_t started;
    // Those of a graph were queued once and run many times: they come whenever their stream gets there.
    while (!captured && (started = comm->started) != request->turn && !comm->aborted)
        futex_wait(&comm->started, started, now_ns() + ABORT_POLL_NS);
    announce(request);
    if (!captured) {
        comm->started++;
        futex_wake_all(&comm->started);
    }
}

// Messages are announced together; collectives of one communicator finish one by one.
static uint64_t run_batch(void *arg) {
    struct batch *batch = arg;
    for (size_t at = 0; at < batch->count; at++)
        if (is_message(&batch->requests[at]))
            announce(&batch->requests[at]);
    for (size_t at = 0; at < batch->count; at++) {
        if (!is_message(&batch->requests[at]))
            start_in_turn(&batch->requests[at], batch->captured);
        await(&batch->requests[at]);
    }
    uint64_t busy_ns = batch->count * simgpu_get("collective_ns");
    if (!batch->captured) {
        for (size_t at = 0; at < batch->count; at++)
            batch->requests[at].comm->in_flight--;
        free(batch);
    }
    return busy_ns;
}

static ncclResult_t queue(const struct request *requests, size_t count) {
    struct batch *batch = malloc(sizeof *batch + count * sizeof *requests);
    if (!batch)
        return ncclSystemError;
    batch->count = 0;
    batch->captured = simgpu_is_capturing(requests[0].stream);
    for (size_t at = 0; at < count; at++) {
        if (requests[at].stream != requests[0].stream)
            continue;
        struct request *request = &batch->requests[batch->count++];
        *request = requests[at];
        if (batch->captured)
            continue;
        request->comm->in_flight++;
        if (!is_message(request))
            request->turn = request->comm->queued++;
    }
    return simgpu_enqueue(requests[0].stream, run_batch, batch) ? ncclUnhandledCudaError : ncclSuccess;
}

ncclResult_t group_submit(struct request request) {
    if (!comm_is_valid(request.comm))
        return ncclInvalidArgument;
    if (is_message(&request) && (request.peer < 0 || request.peer >= request.comm->nranks))
        return ncclInvalidArgument;
    if (group_depth == 0)
        return queue(&request, 1);
    if (grouped_count == grouped_capacity) {
        grouped_capacity = grouped_capacity ? grouped_capacity * 2 : 16;
        grouped = realloc(grouped, grouped_capacity * sizeof *grouped);
        if (!grouped)
            return ncclSystemError;
    }
    grouped[grouped_count++] = request;
    return ncclSuccess;
}

ncclResult_t ncclGroupStart(void) {
    group_depth++;
    return ncclSuccess;
}

ncclResult_t ncclGroupEnd(void) {
    if (group_depth == 0)
        return ncclInvalidUsage;
    if (--group_depth > 0)
        return ncclSuccess;
    ncclResult_t result = ncclSuccess;
    for (size_t at = 0; at < grouped_count && result == ncclSuccess; at++) {
        bool queued = false;
        for (size_t before = 0; before < at; before++)
            queued |= grouped[before].stream == grouped[at].stream;
        if (!queued)
            result = queue(&grouped[at], grouped_count - at);
    }
    grouped_count = 0;
    return result;
}
