// Collectives and messages of the stand-in.
#include "group.h"

static ncclResult_t collective(enum operation operation, size_t count, ncclDataType_t type, ncclComm_t comm,
                               CUstream stream) {
    return group_submit((struct request){
        .comm = comm,
        .stream = stream,
        .offer = {.operation = operation, .type = (uint32_t)type, .count = count},
    });
}

static ncclResult_t message(enum operation operation, size_t count, ncclDataType_t type, int peer,
                            ncclComm_t comm, CUstream stream) {
    return group_submit((struct request){
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

ncclResult_t ncclAllReduceConfig(const void *from, void *to, size_t count, ncclDataType_t type,
                                 ncclRedOp_t op, ncclComm_t comm, CUstream stream, const void *config) {
    (void)from, (void)to, (void)op, (void)config;
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

ncclResult_t ncclAlltoAll(const void *from, void *to, size_t count, ncclDataType_t type, ncclComm_t comm,
                          CUstream stream) {
    (void)from, (void)to;
    return collective(ALL_TO_ALL, count, type, comm, stream);
}

ncclResult_t ncclAllToAll(const void *from, void *to, size_t count, ncclDataType_t type, ncclComm_t comm,
                          CUstream stream) {
    (void)from, (void)to;
    return collective(ALL_TO_ALL, count, type, comm, stream);
}

ncclResult_t ncclGather(const void *from, void *to, size_t count, ncclDataType_t type, int root,
                        ncclComm_t comm, CUstream stream) {
    (void)from, (void)to, (void)root;
    return collective(GATHER, count, type, comm, stream);
}

ncclResult_t ncclScatter(const void *from, void *to, size_t count, ncclDataType_t type, int root,
                         ncclComm_t comm, CUstream stream) {
    (void)from, (void)to, (void)root;
    return collective(SCATTER, count, type, comm, stream);
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
