// A stream: an in-order queue of work on a virtual timeline.
//
// The time of every piece of work follows from when it was queued and how long it takes, so nobody has to
// execute it: whoever looks (a synchronisation, a query, a launch that finds the queue full) retires what is
// over by now. So the stand-in GPU takes no CPU time from the threads under test. Only work that is code
// (host functions, collectives) has a thread, named "simgpu-stream" and created when first needed.
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

// As many launches as the hardware queues before a launch has to wait.
#define STREAM_QUEUE 1024

// Runs on the stream's thread, and returns for how many more nanoseconds the stream stays busy.
typedef uint64_t (*stream_code)(void *arg);
typedef void (*stream_host_code)(void *arg);

struct graph;
struct stream;

// The completion of one recorded event: shared by the event, the queued record and the streams that wait for
// it.
struct mark {
    _Atomic uint32_t refs;
    _Atomic uint64_t done_ns; // zero: not yet
    struct stream *stream;
};

struct item {
    enum item_kind { ITEM_TIMED, ITEM_CODE, ITEM_HOST, ITEM_RECORD, ITEM_WAIT } kind;
    uint64_t queued_ns;
    uint64_t duration_ns;
    bool is_copy; // of an ITEM_TIMED: the compute units have nothing to do meanwhile
    union {
        stream_code code;
        stream_host_code host;
        struct mark *mark;
    };
    void *arg;
};

struct stream {
    uint32_t magic;
    unsigned flags;
    int priority;
    bool has_thread;
    pthread_mutex_t lock;
    struct item *ring;
    _Atomic uint64_t pushed;
    _Atomic uint64_t retired;
    uint64_t free_at_ns; // when the last retired item ended
    _Atomic uint64_t
        next_due_ns; // when looking again makes sense; NEVER while the thread has to run code first
    _Atomic uint32_t retirements; // futex word of blocked waiters
    _Atomic uint32_t waiters;
    _Atomic uint32_t kicks; // futex word of the stream's thread
    uint32_t code_queued;
    struct graph *_Atomic capture; // the graph under construction, else NULL
    struct stream *_Atomic next;
};

// Special handles of the driver's interface.
#define STREAM_LEGACY ((void *)0x1)
#define STREAM_PER_THREAD ((void *)0x2)

struct stream *stream_create(unsigned flags, int priority);
bool stream_destroy(struct stream *stream);

// The stream behind a handle, NULL for a handle that is not one. `per_thread`: what the zero handle means.
struct stream *stream_of(void *handle, bool per_thread);

void stream_push(struct stream *stream, struct item item);
bool stream_is_idle(struct stream *stream);
void stream_wait(struct stream *stream);
void stream_advance(struct stream *stream);
void streams_wait_all(void);
// How long kernels ran so far, on all streams together.
uint64_t streams_computed_ns(void);
// Ends the capture of `graph` on every stream that takes part in it.
void streams_end_capture(struct graph *graph);

struct mark *mark_create(struct stream *stream);
void mark_release(struct mark *mark);
struct mark *mark_share(struct mark *mark);
bool mark_is_done(struct mark *mark);
void mark_wait(struct mark *mark, bool block);

void streams_before_fork(void);
void streams_in_parent(void);
void streams_in_child(void);
