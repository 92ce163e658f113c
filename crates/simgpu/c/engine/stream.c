// A stream: queueing work, retiring what is over, and waiting for it.
#define _GNU_SOURCE
#include "stream.h"

#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

#include "clock.h"
#include "control.h"

#define MAGIC_LIVE 0x57ea3000u
#define MAGIC_DEAD 0xdead3000u

// How long to sleep before looking again at an event of another stream.
#define POLL_NS 50000

static struct stream default_stream = {.magic = MAGIC_LIVE, .lock = PTHREAD_ADAPTIVE_MUTEX_INITIALIZER_NP};
static pthread_mutex_t registry = PTHREAD_MUTEX_INITIALIZER;

static pthread_key_t per_thread_key;
static __thread struct stream *per_thread_stream;

static void retire_per_thread_stream(void *stream) {
    stream_destroy(stream);
}

__attribute__((constructor)) static void create_per_thread_key(void) {
    pthread_key_create(&per_thread_key, retire_per_thread_stream);
}

static _Atomic uint64_t computed_ns;

static uint64_t later(uint64_t a, uint64_t b) {
    return a > b ? a : b;
}

// ---- marks

struct mark *mark_create(struct stream *stream) {
    struct mark *mark = calloc(1, sizeof *mark);
    if (mark) {
        mark->refs = 1;
        mark->stream = stream;
    }
    return mark;
}

struct mark *mark_share(struct mark *mark) {
    if (mark)
        mark->refs++;
    return mark;
}

void mark_release(struct mark *mark) {
    if (mark && --mark->refs == 0)
        free(mark);
}

bool mark_is_done(struct mark *mark) {
    if (!mark->done_ns)
        stream_advance(mark->stream);
    return mark->done_ns != 0;
}

// ---- retiring

static void retire(struct stream *stream, uint64_t end_ns) {
    stream->free_at_ns = end_ns;
    stream->retired++;
    stream->retirements++;
    if (stream->waiters)
        futex_wake_all(&stream->retirements);
}

// Retires what is over. `runner`: the caller is the stream's thread and runs code that is due.
static void advance(struct stream *stream, bool runner) {
    struct mark *looked_at = NULL;
    uint64_t now = now_ns();
    uint64_t due = NEVER;
    pthread_mutex_lock(&stream->lock);
    while (stream->retired != stream->pushed) {
        struct item *item = &stream->ring[stream->retired % STREAM_QUEUE];
        uint64_t start = later(stream->free_at_ns, item->queued_ns);
        if (item->kind == ITEM_TIMED) {
            due = start + item->duration_ns;
            if (due > now)
                break;
            if (!item->is_copy)
                computed_ns += item->duration_ns;
            retire(stream, due);
        } else if (item->kind == ITEM_WAIT) {
            struct mark *mark = item->mark;
            if (!mark->done_ns && mark != looked_at) {
                // The other stream may be behind only because nobody has looked at it.
                mark_release(looked_at);
                looked_at = mark_share(mark);
                pthread_mutex_unlock(&stream->lock);
                stream_advance(mark->stream);
                pthread_mutex_lock(&stream->lock);
                continue;
            }
            due = 0;
            if (!mark->done_ns)
                break;
            retire(stream, later(start, mark->done_ns));
            mark_release(mark);
        } else if (start > now) {
            due = start;
            break;
        } else if (item->kind == ITEM_RECORD) {
            item->mark->done_ns = start;
            mark_release(item->mark);
            retire(stream, start);
        } else if (runner) {
            struct item code = *item;
            pthread_mutex_unlock(&stream->lock);
            uint64_t busy_ns = 0;
            if (code.kind == ITEM_CODE)
                busy_ns = code.code(code.arg);
            else
                code.host(code.arg);
            now = now_ns();
            pthread_mutex_lock(&stream->lock);
            stream->code_queued--;
            *item = (struct item){.kind = ITEM_TIMED, .queued_ns = now, .duration_ns = busy_ns};
        } else {
            due = NEVER;
            break;
        }
    }
    stream->next_due_ns = stream->retired == stream->pushed ? NEVER : due;
    pthread_mutex_unlock(&stream->lock);
    mark_release(looked_at);
}

void stream_advance(struct stream *stream) {
    if (stream->retired != stream->pushed && now_ns() >= stream->next_due_ns)
        advance(stream, false);
}

// ---- the thread, for work that is code

// When the thread has something to do: at the first code in the queue, or, where it drives the stream, at the
// next item.
static uint64_t thread_due_ns(struct stream *stream) {
    uint64_t due = NEVER;
    pthread_mutex_lock(&stream->lock);
    // Who blocked while code was queued counts on the thread for the time that follows the code, too.
    bool drives = stream->code_queued || stream->waiters || CONTROL(stream_threads);
    if (stream->retired != stream->pushed && drives) {
        due = stream->free_at_ns;
        for (uint64_t at = stream->retired; at != stream->pushed; at++) {
            struct item *item = &stream->ring[at % STREAM_QUEUE];
            due = later(due, item->queued_ns) + item->duration_ns;
            if (item->kind == ITEM_WAIT)
                due = now_ns() + POLL_NS;
            if (item->kind != ITEM_TIMED || stream->waiters)
                break;
        }
    }
    pthread_mutex_unlock(&stream->lock);
    return due;
}

static void *run_stream(void *arg) {
    struct stream *stream = arg;
    cpu_set_t every_cpu;
    memset(&every_cpu, 0xff, sizeof every_cpu);
    prctl(PR_SET_NAME, "simgpu-stream");
    prctl(PR_SET_TIMERSLACK, 1);
    // The launching thread may be pinned to a contended CPU; a GPU is not.
    sched_setaffinity(0, sizeof every_cpu, &every_cpu);
    for (;;) {
        uint32_t seen = stream->kicks;
        advance(stream, true);
        uint64_t due = thread_due_ns(stream);
        if (due == NEVER || due > now_ns())
            futex_wait(&stream->kicks, seen, due);
    }
    return NULL;
}

// Called with the lock held.
static void ensure_thread(struct stream *stream) {
    if (stream->has_thread)
        return;
    sigset_t every_signal, before;
    sigfillset(&every_signal);
    pthread_sigmask(SIG_SETMASK, &every_signal, &before);
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_t thread;
    stream->has_thread = pthread_create(&thread, &attributes, run_stream, stream) == 0;
    pthread_attr_destroy(&attributes);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

void stream_push(struct stream *stream, struct item item) {
    bool is_code = item.kind == ITEM_CODE || item.kind == ITEM_HOST;
    bool wants_thread = is_code || CONTROL(stream_threads);
    item.queued_ns = now_ns();
    pthread_mutex_lock(&stream->lock);
    if (!stream->ring)
        stream->ring = calloc(STREAM_QUEUE, sizeof *stream->ring);
    while (stream->pushed - stream->retired == STREAM_QUEUE) {
        pthread_mutex_unlock(&stream->lock);
        cpu_relax();
        stream_advance(stream);
        pthread_mutex_lock(&stream->lock);
    }
    stream->ring[stream->pushed % STREAM_QUEUE] = item;
    if (stream->pushed == stream->retired)
        stream->next_due_ns = 0;
    stream->pushed++;
    stream->code_queued += is_code;
    if (__builtin_expect(wants_thread, 0)) {
        ensure_thread(stream);
        stream->kicks++;
        futex_wake_all(&stream->kicks);
    }
    pthread_mutex_unlock(&stream->lock);
}

// ---- waiting

bool stream_is_idle(struct stream *stream) {
    stream_advance(stream);
    return stream->retired == stream->pushed;
}

static void block_once(struct stream *stream) {
    uint32_t seen = stream->retirements;
    stream->waiters++;
    stream_advance(stream);
    uint64_t due = stream->next_due_ns;
    if (stream->has_thread && (stream->code_queued || CONTROL(stream_threads))) {
        // The thread wakes us; it has to know that somebody waits.
        stream->kicks++;
        futex_wake_all(&stream->kicks);
        due = NEVER;
    } else if (due == 0) {
        due = now_ns() + POLL_NS;
    }
    if (stream->retired != stream->pushed)
        futex_wait(&stream->retirements, seen, due);
    stream->waiters--;
}

void stream_wait(struct stream *stream) {
    uint64_t target = stream->pushed;
    bool block = CONTROL(sync);
    while (stream->retired < target) {
        if (block)
            block_once(stream);
        else
            cpu_relax();
        stream_advance(stream);
    }
}

void mark_wait(struct mark *mark, bool block) {
    while (!mark_is_done(mark)) {
        if (block)
            block_once(mark->stream);
        else
            cpu_relax();
    }
}

void streams_wait_all(void) {
    for (struct stream *stream = &default_stream; stream; stream = stream->next)
        stream_wait(stream);
}

uint64_t streams_computed_ns(void) {
    for (struct stream *stream = &default_stream; stream; stream = stream->next)
        stream_advance(stream);
    return computed_ns;
}

// ---- creation

struct stream *stream_create(unsigned flags, int priority) {
    pthread_mutex_lock(&registry);
    struct stream *last = &default_stream, *stream;
    // A destroyed stream finishes its work first, as the real one does; then its memory serves again.
    for (stream = last->next; stream; last = stream, stream = stream->next)
        if (stream->magic == MAGIC_DEAD && stream_is_idle(stream))
            break;
    if (!stream) {
        stream = calloc(1, sizeof *stream);
        if (stream) {
            pthread_mutex_init(&stream->lock, NULL);
            last->next = stream;
        }
    }
    if (stream) {
        stream->flags = flags;
        stream->priority = priority;
        stream->magic = MAGIC_LIVE;
    }
    pthread_mutex_unlock(&registry);
    return stream;
}

bool stream_destroy(struct stream *stream) {
    if (stream == &default_stream || stream->magic != MAGIC_LIVE)
        return false;
    stream->capture = NULL;
    __atomic_store_n(&stream->magic, MAGIC_DEAD, __ATOMIC_RELEASE);
    return true;
}

struct stream *stream_of(void *handle, bool per_thread) {
    if (handle == STREAM_PER_THREAD || (!handle && per_thread)) {
        if (!per_thread_stream) {
            per_thread_stream = stream_create(0, 0);
            pthread_setspecific(per_thread_key, per_thread_stream);
        }
        return per_thread_stream;
    }
    if (!handle || handle == STREAM_LEGACY)
        return &default_stream;
    struct stream *stream = handle;
    return stream->magic == MAGIC_LIVE ? stream : NULL;
}

void streams_end_capture(struct graph *graph) {
    for (struct stream *stream = &default_stream; stream; stream = stream->next)
        if (stream->capture == graph)
            stream->capture = NULL;
}

// ---- fork: the child has none of the threads and none of the queued work

void streams_before_fork(void) {
    pthread_mutex_lock(&registry);
}

void streams_in_parent(void) {
    pthread_mutex_unlock(&registry);
}

void streams_in_child(void) {
    pthread_mutex_init(&registry, NULL);
    for (struct stream *stream = &default_stream; stream; stream = stream->next) {
        pthread_mutex_init(&stream->lock, NULL);
        for (uint64_t at = stream->retired; at != stream->pushed; at++) {
            struct item *item = &stream->ring[at % STREAM_QUEUE];
            if (item->kind == ITEM_RECORD)
                item->mark->done_ns = now_ns();
        }
        stream->retired = stream->pushed;
        stream->next_due_ns = NEVER;
        stream->code_queued = 0;
        stream->waiters = 0;
        stream->has_thread = false;
    }
}
