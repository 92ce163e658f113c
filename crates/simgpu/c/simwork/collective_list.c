// The list of calls of NCCL in the truth.
#include "collective_list.h"

#include <inttypes.h>
#include <stdio.h>

#include "truth.h"

// A test reads at most this many; a rank that runs for hours must not keep more.
#define MAX_LISTED (1 << 16)

static FILE *list;
static char *list_text;
static size_t list_length;
static uint64_t listed;

void collectives_list(struct listed call) {
    static const struct member nobody = {.rank = NONE, .nranks = NONE};
    if (listed++ >= MAX_LISTED)
        return;
    if (!list)
        list = open_memstream(&list_text, &list_length);
    const struct member *member = call.member ? call.member : &nobody;
    fprintf(list, "%s{\"op\":\"%s\",\"comm\":\"0x%" PRIx64 "\",\"hash\":\"%s\",\"rank\":%d,\"nranks\":%d",
            ftell(list) ? "," : "", call.op, (uint64_t)member->comm, member->hash, member->rank,
            member->nranks);
    fprintf(list, ",\"seq\":%" PRId64 ",\"count\":%zu,\"type\":%d,\"redop\":%d,\"root\":%d", call.seq,
            call.count, call.type, call.redop, call.peer);
    fprintf(list, ",\"stream\":\"0x%" PRIx64 "\",\"ret\":%d}", (uint64_t)call.stream, call.result);
}

void collectives_tell(void) {
    if (list)
        fflush(list);
    fprintf(truth_more(), ",\"collectives\":[%s]", list ? list_text : "");
}
