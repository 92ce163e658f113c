// The truth: counters in memory that children share, so that what they did is known after they died.
#define _GNU_SOURCE
#include "truth.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define MAX_THREADS 16384
#define MAX_CHILDREN 16384

static const char *const names[OP_COUNT] = {
#define OP(name) #name,
#include "ops.def"
#undef OP
};

static struct shared {
    _Atomic uint64_t own[OP_COUNT], children[OP_COUNT], unfinished[OP_COUNT];
    _Atomic uint32_t thread_count, child_count;
    int threads[MAX_THREADS], pids[MAX_CHILDREN];
} * shared;

static _Atomic uint64_t *counters;
static FILE *more, *calls;
static char *more_text, *calls_text;
static size_t more_length, calls_length;
static pthread_mutex_t calls_lock = PTHREAD_MUTEX_INITIALIZER;

void truth_begin(void) {
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED)
        abort();
    counters = shared->own;
}

// Notes that this thread makes calls.
static void note_thread(void) {
    static __thread bool noted;
    if (noted || counters != shared->own)
        return;
    noted = true;
    uint32_t at = shared->thread_count++;
    if (at < MAX_THREADS)
        shared->threads[at] = (int)syscall(SYS_gettid);
}

void truth_add(enum op op, uint64_t count) {
    if (!count)
        return;
    note_thread();
    counters[op] += count;
}

void truth_add_unfinished(enum op op) {
    note_thread();
    shared->unfinished[op]++;
}

void truth_in_child(void) {
    counters = shared->children;
}

void truth_child(int pid) {
    uint32_t at = shared->child_count++;
    if (at < MAX_CHILDREN)
        shared->pids[at] = pid;
}

static const char *or_nothing(const char *text) {
    return text ? text : "";
}

void truth_call(struct call call) {
    truth_add(call.op, 1);
    pthread_mutex_lock(&calls_lock);
    if (!calls)
        calls = open_memstream(&calls_text, &calls_length);
    fprintf(calls, "%s{\"op\":\"%s\",\"api\":\"%s\",\"bytes\":\"0x%" PRIx64 "\",\"stream\":\"0x%" PRIx64 "\"",
            ftell(calls) ? "," : "", names[call.op], call.api, call.bytes, (uint64_t)call.stream);
    fprintf(calls,
            ",\"ptr\":\"0x%" PRIx64 "\",\"aux\":\"0x%" PRIx64 "\",\"direction\":\"%s\",\"name\":\"%s\"",
            call.pointer, call.aux, or_nothing(call.direction), or_nothing(call.name));
    fprintf(calls, ",\"ret\":\"0x%" PRIx64 "\",\"tid\":%d}", (uint64_t)call.result, (int)syscall(SYS_gettid));
    pthread_mutex_unlock(&calls_lock);
}

FILE *truth_more(void) {
    if (!more)
        more = open_memstream(&more_text, &more_length);
    return more;
}

static void print_ops(FILE *out, _Atomic uint64_t *counts) {
    const char *comma = "";
    fputc('{', out);
    for (int op = 0; op < OP_COUNT; op++) {
        if (!counts[op])
            continue;
        fprintf(out, "%s\"%s\":%" PRIu64, comma, names[op], counts[op]);
        comma = ",";
    }
    fputc('}', out);
}

static void print_numbers(FILE *out, const int *numbers, uint32_t count, uint32_t limit) {
    fputc('[', out);
    for (uint32_t at = 0; at < count && at < limit; at++)
        fprintf(out, "%s%d", at ? "," : "", numbers[at]);
    fputc(']', out);
}

char *truth_so_far(void) {
    char *text;
    size_t length;
    FILE *out = open_memstream(&text, &length);
    fprintf(out, "{\"ops\":");
    print_ops(out, shared->own);
    fprintf(out, ",\"unfinished\":");
    print_ops(out, shared->unfinished);
    fprintf(out, "}");
    fclose(out);
    return text;
}

void truth_print(const char *command) {
    printf("{\"command\":\"%s\",\"pid\":%d,\"ops\":", command, (int)getpid());
    print_ops(stdout, shared->own);
    printf(",\"unfinished\":");
    print_ops(stdout, shared->unfinished);
    printf(",\"tids\":");
    print_numbers(stdout, shared->threads, shared->thread_count, MAX_THREADS);
    if (shared->child_count) {
        printf(",\"children\":{\"count\":%u,\"ops\":", shared->child_count);
        print_ops(stdout, shared->children);
        printf(",\"pids\":");
        print_numbers(stdout, shared->pids, shared->child_count, MAX_CHILDREN);
        printf("}");
    }
    if (more) {
        fflush(more);
        printf("%s", more_text);
    }
    if (calls) {
        fflush(calls);
        printf(",\"calls\":[%s]", calls_text);
    }
    printf("}\n");
    fflush(stdout);
}
