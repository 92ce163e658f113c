// Messages of the stand-in: between two ranks, and signals, which only one of them waits for.
#include "group.h"

static ncclResult_t message(enum operation operation, size_t count, ncclDataType_t type, int peer,
                            ncclComm_t comm, CUstream stream) {
    return group_submit((struct request){
        .comm = comm,
        .stream = stream,
        .offer = {.operation = operation, .type = (uint32_t)type, .count = count},
        .peer = peer,
    });
}

ncclResult_t ncclSend(const void *from, size_t count, ncclDataType_t type, int peer, PLACE) {
    (void)from;
    return message(SEND, count, type, peer, comm, stream);
}

ncclResult_t ncclRecv(void *to, size_t count, ncclDataType_t type, int peer, PLACE) {
    (void)to;
    return message(RECEIVE, count, type, peer, comm, stream);
}

// All signals of a pair of ranks are one: the real library takes no other index or context than 0 either.
ncclResult_t ncclPutSignal(const void *from, size_t count, ncclDataType_t type, int peer, ncclWindow_t window,
                           size_t offset, int signal, int context, unsigned flags, PLACE) {
    (void)from, (void)window, (void)offset, (void)signal, (void)context, (void)flags;
    return message(SIGNAL, count, type, peer, comm, stream);
}

ncclResult_t ncclSignal(int peer, int signal, int context, unsigned flags, PLACE) {
    (void)signal, (void)context, (void)flags;
    return message(SIGNAL, 0, 0, peer, comm, stream);
}

ncclResult_t ncclWaitSignal(int count, ncclWaitSignalDesc_t *signals, PLACE) {
    if (count < 0 || (count && !signals))
        return ncclInvalidArgument;
    ncclResult_t result = ncclSuccess;
    for (int at = 0; at < count && result == ncclSuccess; at++)
        result = message(AWAIT_SIGNAL, (size_t)signals[at].opCnt, 0, signals[at].peer, comm, stream);
    return result;
}
