// Collectives, messages and groups of the stand-in. A call only queues: on the stream's thread the operations
// of one group are all announced first and then awaited, so that ranks which send to each other do not block
// each other.
#include <stdlib.h>

#include "comm.h"

enum operation { ALL_REDUCE = 1, BROADCAST, REDUCE, ALL_GATHER, REDUCE_SCATTER, ALL_TO_ALL, SEND, RECEIVE };

struct request {
    struct ncclComm *comm;
    CUstream stream;
    struct offer offer;
    int peer;
    uint64_t seq; // given when it is announced
};

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
    default:
        board_await_all(comm->board, comm->rank, request->seq, &comm->aborted);
    }
}

static bool is_message(const struct request *request) {
    return request->offer.operation == SEND || request->offer.operation == RECEIVE;
}

// Messages are announced together; collectives of one communicator have to finish one by one, because the
// board keeps the offer of two only.
static uint64_t run_batch(void *arg) {
    struct batch *batch = arg;
    for (size_t at = 0; at < batch->count; at++)
        if (is_message(&batch->requests[at]))
            announce(&batch->requests[at]);
    for (size_t at = 0; at < batch->count; at++) {
        if (!is_message(&batch->requests[at]))
            announce(&batch->requests[at]);
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
        batch->requests[batch->count++] = requests[at];
        if (!batch->captured)
            requests[at].comm->in_flight++;
    }
    return simgpu_enqueue(requests[0].stream, run_batch, batch) ? ncclUnhandledCudaError : ncclSuccess;
}

static ncclResult_t submit(struct request request) {
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

static ncclResult_t collective(enum operation operation, size_t count, ncclDataType_t type, ncclComm_t comm,
                               CUstream stream) {
    return submit((struct request){
        .comm = comm,
        .stream = stream,
        .offer = {.operation = operation, .type = (uint32_t)type, .count = count},
    });
}

static ncclResult_t message(enum operation operation, size_t count, ncclDataType_t type, int peer,
                            ncclComm_t comm, CUstream stream) {
    return submit((struct request){
        .comm = comm,
        .stream = stream,
        .offer = {.operation = operation, .type = (uint32_t)type, .count = count},
        .peer = peer,
    });
}

ncclResult_t ncclAllReduce(const void *from, void *to, size_t count, ncclDataType_t type, ncclRedOp_t op,
                           ncclComm_t comm, CUstream stream) {
    (void)from, (void)to, (void)op;
    return collective(ALL_REDUCE, count, type, comm, stream);
}

ncclResult_t ncclBroadcast(const void *from, void *to, size_t count, ncclDataType_t type, int root,
                           ncclComm_t comm, CUstream stream) {
    (void)from;
    return ncclBcast(to, count, type, root, comm, stream);
}

ncclResult_t ncclBcast(void *buffer, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
                       CUstream stream) {
    (void)buffer, (void)root;
    return collective(BROADCAST, count, type, comm, stream);
}

ncclResult_t ncclReduce(const void *from, void *to, size_t count, ncclDataType_t type, ncclRedOp_t op,
                        int root, ncclComm_t comm, CUstream stream) {
    (void)from, (void)to, (void)op, (void)root;
    return collective(REDUCE, count, type, comm, stream);
}

ncclResult_t ncclAllGather(const void *from, void *to, size_t count, ncclDataType_t type, ncclComm_t comm,
                           CUstream stream) {
    (void)from, (void)to;
    return collective(ALL_GATHER, count, type, comm, stream);
}

ncclResult_t ncclReduceScatter(const void *from, void *to, size_t count, ncclDataType_t type, ncclRedOp_t op,
                               ncclComm_t comm, CUstream stream) {
    (void)from, (void)to, (void)op;
    return collective(REDUCE_SCATTER, count, type, comm, stream);
}

ncclResult_t ncclAllToAll(const void *from, void *to, size_t count, ncclDataType_t type, ncclComm_t comm,
                          CUstream stream) {
    (void)from, (void)to;
    return collective(ALL_TO_ALL, count, type, comm, stream);
}

ncclResult_t ncclSend(const void *from, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      CUstream stream) {
    (void)from;
    return message(SEND, count, type, peer, comm, stream);
}

ncclResult_t ncclRecv(void *to, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      CUstream stream) {
    (void)to;
    return message(RECEIVE, count, type, peer, comm, stream);
}
