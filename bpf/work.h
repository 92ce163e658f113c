/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What calls do to streams, functions and captures, by their role. */
#pragma once

#include "capture.h"
#include "function.h"
#include "stream.h"

/* The thread whose own stream it is, where stream 0 means that. */
static __always_inline u32 stream_owner(const struct rule *rule, const struct flight *flight, u32 tid) {
    return (rule->flags & RULE_THREAD_STREAM) && !flight->stream ? tid : 0;
}

static __always_inline struct event_mark *mark_of_event(u32 tgid, u64 event) {
    struct slot_key key = {.tgid = tgid, .handle = event};
    return bpf_map_lookup_elem(&event_marks, &key);
}

struct pending {
    u32 slot;
    u32 count;
};

/* Notes a stream with unfinished work. Functions here are global so that the verifier goes through each once,
 * and not once for every way that leads to a call of it, nor for every round of a loop: that decides how long
 * loading takes. */
__noinline int note_pending(struct pending *pending, u32 slot) {
    struct stream_state *state = stream_at(slot);
    if (!pending || !state || state->submitted == state->done)
        return 0;
    pending->slot = slot;
    pending->count++;
    return 0;
}

/* The one stream of the process with unfinished work, or 0 where there are none or several. */
__noinline u32 only_pending_stream(u32 tgid) {
    struct process_streams *all = bpf_map_lookup_elem(&process_streams, &tgid);
    struct pending pending = {};
    if (!all)
        return 0;
    for (u32 i = 0; i < PROCESS_STREAMS && i < all->count; i++)
        note_pending(&pending, all->slots[i & (PROCESS_STREAMS - 1)]);
    return pending.count == 1 ? pending.slot : 0;
}

/* Work submitted meanwhile may not be done. */
__noinline int complete_older(struct flight *flight, u32 slot, u32 tgid, u64 now) {
    struct stream_state *state = stream_at(slot);
    if (flight && state && state->tgid == tgid && state->last_submit_ns < flight->start_ns)
        complete_one(slot, state, state->submitted, flight, now);
    return 0;
}

__noinline int complete_all(struct flight *flight, u32 tgid, u64 now) {
    struct process_streams *all = bpf_map_lookup_elem(&process_streams, &tgid);
    if (!all || !flight)
        return 0;
    for (u32 i = 0; i < PROCESS_STREAMS && i < all->count; i++)
        complete_older(flight, all->slots[i & (PROCESS_STREAMS - 1)], tgid, now);
    return 0;
}

__noinline int complete_up_to(struct flight *flight, u32 slot, u64 mark, u64 now) {
    if (flight)
        complete(slot, mark, flight, now);
    return 0;
}

static __always_inline void await_slot(struct flight *flight, u32 slot, u64 mark, u64 now) {
    struct stream_state *state = stream_at(slot);
    if (!state)
        return;
    flight->slot = slot;
    flight->mark = mark ? mark : state->submitted;
    begin_wait(state, flight, now);
}

static __always_inline void work_enter(struct task *task, const struct rule *rule, struct flight *flight,
                                       u64 id, u64 now) {
    u32 tgid = id >> 32;
    u32 owner = stream_owner(rule, flight, (u32)id);
    struct stream_state *state;
    struct event_mark *event;
    switch (rule->role) {
    case ROLE_LAUNCH:
    case ROLE_GRAPH_LAUNCH:
    case ROLE_SUBMIT:
        flight->capture = capture_of(tgid, flight->stream);
        if (flight->capture)
            break;
        flight->slot = stream_slot(task, tgid, owner, flight->stream);
        state = stream_at(flight->slot);
        if (state)
            flight->mark = submit(state, now);
        break;
    case ROLE_SYNC_STREAM:
    case ROLE_STREAM_QUERY:
        flight->slot = stream_slot(task, tgid, owner, flight->stream);
        state = stream_at(flight->slot);
        if (!state)
            break;
        flight->mark = state->submitted;
        if (rule->role == ROLE_SYNC_STREAM)
            begin_wait(state, flight, now);
        break;
    case ROLE_SYNC_EVENT:
        event = mark_of_event(tgid, flight_arg(flight, rule->handle_arg));
        if (event)
            await_slot(flight, event->slot, event->mark, now);
        break;
    case ROLE_SYNC_DEVICE:
        await_slot(flight, only_pending_stream(tgid), 0, now);
        break;
    case ROLE_SET_DEVICE:
        task->device_next = (s32)flight->args[0] + 1;
        break;
    case ROLE_REGISTER: {
        struct slot_key key = {.tgid = tgid, .handle = flight_arg(flight, rule->handle_arg)};
        u64 name = flight_arg(flight, rule->aux_arg);
        bpf_map_update_elem(&registrations, &key, &name, BPF_ANY);
        break;
    }
    }
}

__noinline int event_recorded(struct task *task, struct flight *flight, u32 tgid, u32 owner, u64 event) {
    if (!task || !flight)
        return 0;
    u64 capture = capture_of(tgid, flight->stream);
    if (capture) {
        join_capture(tgid, event, capture);
        return 0;
    }
    struct event_mark mark = {.slot = stream_slot(task, tgid, owner, flight->stream)};
    struct stream_state *state = stream_at(mark.slot);
    if (!state)
        return 0;
    mark.mark = state->submitted;
    struct slot_key key = {.tgid = tgid, .handle = event};
    bpf_map_update_elem(&event_marks, &key, &mark, BPF_ANY);
    return 0;
}

__noinline int stream_waits(struct task *task, struct flight *flight, u32 tgid, u32 owner, u64 event) {
    if (!task || !flight)
        return 0;
    u64 capture = capture_of(tgid, event);
    if (capture) {
        join_capture(tgid, flight->stream, capture);
        return 0;
    }
    struct event_mark *mark = mark_of_event(tgid, event);
    struct stream_state *other = mark ? stream_at(mark->slot) : 0;
    u32 slot = stream_slot(task, tgid, owner, flight->stream);
    struct stream_state *state = stream_at(slot);
    if (!other || !state || mark->slot == slot || mark->mark <= other->done)
        return 0;
    u32 place = state->next_dependency++;
    barrier_var(place);
    struct dependency *dependency = &state->dependencies[place & (DEPENDENCIES - 1)];
    dependency->mark = mark->mark;
    dependency->at = state->submitted;
    dependency->slot = mark->slot;
    return 0;
}

__noinline int event_queried(struct flight *flight, u32 tgid, u64 event, s32 ret, u64 now) {
    struct event_mark *mark = mark_of_event(tgid, event);
    if (!mark || !flight)
        return 0;
    struct stream_state *state = stream_at(mark->slot);
    if (!state)
        return 0;
    if (ret == 0)
        complete(mark->slot, mark->mark, flight, now);
    else
        see_unfinished(state, mark->mark, now);
    return 0;
}

static __always_inline void work_return(struct task *task, const struct rule *rule, struct flight *flight,
                                        u64 id, s32 ret, u64 now) {
    u32 tgid = id >> 32;
    u64 handle = flight_arg(flight, rule->handle_arg);
    struct stream_state *state;
    switch (rule->role) {
    case ROLE_LAUNCH:
    case ROLE_GRAPH_LAUNCH:
        if (flight->capture || ret != 0)
            break;
        flight->first =
            count_launch(task, tgid, handle, rule->role == ROLE_GRAPH_LAUNCH, now - flight->start_ns);
        state = stream_at(flight->slot);
        if (state) {
            __sync_fetch_and_add(&state->launches, 1);
            __sync_fetch_and_add(&state->launch_ns, now - flight->start_ns);
        }
        break;
    case ROLE_SUBMIT:
        /* A copy to pageable memory of the host is done when it returns; others may be on their way. */
        if ((rule->flags & RULE_WAITS) && flight->direction == DIRECTION_DEVICE_TO_HOST && ret == 0)
            complete_up_to(flight, flight->slot, flight->mark, now);
        break;
    case ROLE_SYNC_STREAM:
    case ROLE_SYNC_EVENT:
        state = stream_at(flight->slot);
        if (state)
            end_wait(state, flight, now);
        if (ret == 0)
            complete_up_to(flight, flight->slot, flight->mark, now);
        break;
    case ROLE_SYNC_DEVICE:
        state = stream_at(flight->slot);
        if (state)
            end_wait(state, flight, now);
        if (ret == 0)
            complete_all(flight, tgid, now);
        break;
    case ROLE_STREAM_QUERY:
        state = stream_at(flight->slot);
        if (ret == 0)
            complete_up_to(flight, flight->slot, flight->mark, now);
        else if (ret == rule->benign_ret && state)
            see_unfinished(state, flight->mark, now);
        break;
    case ROLE_EVENT_RECORD:
        if (ret == 0)
            event_recorded(task, flight, tgid, stream_owner(rule, flight, (u32)id), handle);
        break;
    case ROLE_EVENT_QUERY:
        if (ret == 0 || ret == rule->benign_ret)
            event_queried(flight, tgid, handle, ret, now);
        break;
    case ROLE_STREAM_WAIT:
        if (ret == 0)
            stream_waits(task, flight, tgid, stream_owner(rule, flight, (u32)id), handle);
        break;
    case ROLE_CAPTURE_BEGIN:
        if (ret == 0)
            flight->capture = begin_capture(tgid, flight->stream);
        break;
    case ROLE_CAPTURE_END:
        flight->capture = capture_of(tgid, flight->stream);
        end_capture(flight->capture);
        break;
    }
}
