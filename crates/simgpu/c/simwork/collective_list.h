// The list of calls of NCCL in the truth.
#pragma once

#include "member.h"

#define NONE (-1)

// What a call has none of is NONE, but for a member, which is NULL.
struct listed {
    const char *op;
    const struct member *member;
    const void *stream;
    size_t count;
    int type, redop;
    int peer;    // the root of a collective, or the other side of a message
    int64_t seq; // of a collective; messages have no number
    int result;
};

void collectives_list(struct listed call);
// Writes the list of all calls so far as a member of the truth.
void collectives_tell(void);
