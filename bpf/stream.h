/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Streams: what was submitted to each and how much of it is known to be done. From that come two bounds of
 * its busy time: it cannot have worked before something was submitted nor after the host knew it was empty
 * (upper), and it did work while somebody waited for it or saw it unfinished (lower). */
#pragma once

#include "slot.h"

struct dependency {
    u32 slot;
    u32 reserved;
    u64 mark; /* of the stream waited for */
    u64 at;   /* what was submitted to the waiting one by then */
};

#define DEPENDENCIES 2 /* a power of two */

struct stream_state {
    u64 stream;
    u32 tgid;
    u32 tid; /* whose own default stream it is, or 0 */
    u64 submitted;
    u64 done; /* of `submitted` */
    u64 launches;
    u64 launch_ns;
    u64 pending_since_ns; /* 0: known to be empty */
    u64 last_submit_ns;
    u64 waiting_since_ns; /* 0: nobody waits */
    u64 unfinished_ns;    /* when it was last seen unfinished; 0: not since it was empty */
    u64 unfinished_mark;  /* what was submitted by then */
    u64 upper_ns;
    u64 lower_ns;
    u64 collective_mark; /* of the latest collective */
    u32 waiters;
    u32 next_dependency;
    struct dependency dependencies[DEPENDENCIES];
};

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, STREAM_SLOTS);
    __type(key, u32);
    __type(value, struct stream_state);
} streams SEC(".maps");

/* The streams of a process, for what waits for all of them. */
#define PROCESS_STREAMS 64

struct process_streams {
    u32 count;
    u32 slots[PROCESS_STREAMS];
};

struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, 16384);
    __uint(map_flags, BPF_F_NO_PREALLOC);
    __type(key, u32);
    __type(value, struct process_streams);
} process_streams SEC(".maps");

struct event_mark {
    u32 slot;
    u32 reserved;
    u64 mark;
};

/* What each event was recorded behind. The least used are forgotten: a program makes new ones all the time.
 */
struct {
    __uint(type, BPF_MAP_TYPE_LRU_HASH);
    __uint(max_entries, 32768);
    __type(key, struct slot_key);
    __type(value, struct event_mark);
} event_marks SEC(".maps");

/* Collectives on a stream are known to be done. */
struct completion_record {
    struct record head; /* head.time_ns: when the host knew */
    u64 done;
    u64 wait_ns;
    u32 slot;
    u16 op;
    u16 reserved;
};

static const struct process_streams no_streams;

static __always_inline void add_to_process(u32 tgid, u32 slot) {
    struct process_streams *all = bpf_map_lookup_elem(&process_streams, &tgid);
    if (!all) {
        bpf_map_update_elem(&process_streams, &tgid, &no_streams, BPF_NOEXIST);
        all = bpf_map_lookup_elem(&process_streams, &tgid);
        if (!all)
            return;
    }
    u32 at = __sync_fetch_and_add(&all->count, 1);
    barrier_var(at);
    if (at < PROCESS_STREAMS)
        all->slots[at & (PROCESS_STREAMS - 1)] = slot;
}

static __always_inline u32 stream_slot(struct task *task, u32 tgid, u32 tid, u64 stream) {
    u64 cache_key = stream | (tid ? 1ULL << 63 : 0);
    u32 place = cache_place(stream, CACHED_STREAMS);
    barrier_var(place);
    struct cached *cached = &task->streams[place & (CACHED_STREAMS - 1)];
    if (cached->key == cache_key && cached->slot)
        return cached->slot;
    struct slot_key key = {.tgid = tgid, .tid = tid, .handle = stream};
    bool fresh = false;
    u32 slot = slot_of(&stream_index, &key, &stream_slots_free, SLOT_STREAM, STREAM_SLOTS, &fresh);
    if (!slot)
        return 0;
    if (fresh) {
        struct stream_state *state = bpf_map_lookup_elem(&streams, &slot);
        if (state) {
            __builtin_memset(state, 0, sizeof(*state));
            state->stream = stream;
            state->tgid = tgid;
            state->tid = tid;
        }
        add_to_process(tgid, slot);
    }
    cached->key = cache_key;
    cached->slot = slot;
    return slot;
}

static __always_inline struct stream_state *stream_at(u32 slot) {
    return slot ? bpf_map_lookup_elem(&streams, &slot) : 0;
}

/* Work goes to a stream; its mark. */
static __always_inline u64 submit(struct stream_state *state, u64 now) {
    u64 mark = __sync_fetch_and_add(&state->submitted, 1) + 1;
    if (!state->pending_since_ns)
        state->pending_since_ns = now;
    state->last_submit_ns = now;
    return mark;
}

static __always_inline void emit_completion(u32 slot, u64 done, u16 op, u64 now, u64 wait_ns) {
    void *ring = ring_of_cpu(bpf_get_smp_processor_id());
    struct completion_record *out = ring ? bpf_ringbuf_reserve(ring, sizeof(*out), 0) : 0;
    if (!out) {
        count_loss(LOSS_STATE_RING);
        return;
    }
    fill_header(&out->head, RECORD_COMPLETION, now);
    out->done = done;
    out->wait_ns = wait_ns;
    out->slot = slot;
    out->op = op;
    out->reserved = 0;
    bpf_ringbuf_submit(out, submit_flags(ring));
}

/* Everything up to the mark is done, as the host knows now. */
static __always_inline void complete_one(u32 slot, struct stream_state *state, u64 mark,
                                         const struct flight *flight, u64 now) {
    u64 before = state->done;
    if (mark <= before)
        return;
    state->done = mark;
    if (state->pending_since_ns && now > state->pending_since_ns)
        __sync_fetch_and_add(&state->upper_ns, now - state->pending_since_ns);
    state->pending_since_ns = state->submitted == mark ? 0 : now;
    state->unfinished_ns = 0;
    if (state->collective_mark > before)
        emit_completion(slot, mark, flight->op, now, now - flight->start_ns);
}

/* And with it what its stream had waited for. */
static __always_inline void complete(u32 slot, u64 mark, const struct flight *flight, u64 now) {
    struct stream_state *state = stream_at(slot);
    if (!state)
        return;
    for (u32 i = 0; i < DEPENDENCIES; i++) {
        struct dependency *dependency = &state->dependencies[i];
        if (dependency->slot && dependency->at <= mark) {
            struct stream_state *other = stream_at(dependency->slot);
            if (other && other->tgid == state->tgid)
                complete_one(dependency->slot, other, dependency->mark, flight, now);
            dependency->slot = 0;
        }
    }
    complete_one(slot, state, mark, flight, now);
}

static __always_inline bool waits_for_others(const struct stream_state *state) {
    return state->dependencies[0].slot || state->dependencies[1].slot;
}

/* Somebody saw it unfinished: work that was already there the last time has kept it busy since. */
static __always_inline void see_unfinished(struct stream_state *state, u64 mark, u64 now) {
    if (waits_for_others(state) || mark <= state->done)
        return;
    if (state->unfinished_ns && mark <= state->unfinished_mark && !state->waiters)
        __sync_fetch_and_add(&state->lower_ns, now - state->unfinished_ns);
    state->unfinished_ns = now;
    state->unfinished_mark = state->submitted;
}

/* A wait for a stream begins, if there is anything to wait for. */
static __always_inline void begin_wait(struct stream_state *state, struct flight *flight, u64 now) {
    if (flight->mark <= state->done || waits_for_others(state))
        return;
    flight->waiting = 1;
    if (__sync_fetch_and_add(&state->waiters, 1) == 0)
        state->waiting_since_ns = now;
}

/* The host notices late that a stream is empty: so much of a wait is no proof that it worked. */
enum notice {
    NOTICE_NS = 20000,
    NOTICE_SHARE = 100, /* and one in so many of it */
};

/* Nor may the GPU have worked while the thread was ready to run but did not get the CPU. */
static __always_inline void end_wait(struct stream_state *state, const struct flight *flight, u64 now) {
    if (!flight->waiting || __sync_fetch_and_add(&state->waiters, -1) != 1)
        return;
    u64 waited_ns = now - state->waiting_since_ns;
    u64 doubt_ns = NOTICE_NS + waited_ns / NOTICE_SHARE + (flight->waited ? flight->runq_ns : 0);
    state->waiting_since_ns = 0;
    if (waited_ns > doubt_ns)
        __sync_fetch_and_add(&state->lower_ns, waited_ns - doubt_ns);
}

KEEP_TYPE(enum, notice);
KEEP_TYPE(struct, stream_state);
KEEP_TYPE(struct, completion_record);
