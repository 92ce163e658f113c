// The truth: what a workload really did, printed as one line of JSON at its end.
#pragma once

#include <stdint.h>
#include <stdio.h>

enum op {
#define OP(name) OP_##name,
#include "ops.def"
#undef OP
    OP_COUNT
};

void truth_begin(void);

// Counts `calls` of this thread that returned. In a child (after truth_in_child) they count as the
// children's.
void truth_add(enum op op, uint64_t calls);
// Counts a call that never returns: its thread or process dies inside.
void truth_add_unfinished(enum op op);
void truth_in_child(void);
void truth_child(int pid);

// One call with its arguments and result, listed in order under "calls". `api` is the function that was
// called.
void truth_call(enum op op, const char *api, uint64_t bytes, const void *stream, uint64_t pointer,
                int64_t result);

// Where a command writes more members, each starting with a comma: `,"name":value`.
FILE *truth_more(void);
void truth_print(const char *command);
// What happened so far as a JSON object, for a process about to become another program. Owned by the caller.
char *truth_so_far(void);

#define COUNTED(op, call)                                                                                    \
    ({                                                                                                       \
        __typeof__(call) counted_result = (call);                                                            \
        truth_add(OP_##op, 1);                                                                               \
        counted_result;                                                                                      \
    })

// COUNTED for a call of the same name as its op.
#define CALL(function, ...) COUNTED(function, function(__VA_ARGS__))

// Makes `call`, which counts as `op`, and lists it as a call of `api`. `pointer` is read after the call: it
// may be what the call returned.
#define LISTED(op, api, bytes, stream, pointer, call)                                                        \
    do {                                                                                                     \
        int64_t listed_result = (call);                                                                      \
        truth_call(OP_##op, api, bytes, stream, (uint64_t)(pointer), listed_result);                         \
    } while (0)
