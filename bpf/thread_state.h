/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What the Python interpreter keeps of the current thread: found among the states of all its threads. */
#pragma once

#include "blame.h"
#include "gil.h"

/* Thread states looked at to find the current thread's: so many at a time, so often in a turn, and so many
 * turns. */
#define PYTHON_STATES 16
#define PYTHON_TIMES 16
#define PYTHON_TURNS 64
#define PYTHON_TRIES 3

static __always_inline u64 user_word(u64 address) {
    u64 value = 0;
    bpf_probe_read_user(&value, sizeof(value), (void *)address);
    return value;
}

static __always_inline u32 user_half(u64 address) {
    u32 value = 0;
    bpf_probe_read_user(&value, sizeof(value), (void *)address);
    return value;
}

static __always_inline u8 user_byte(u64 address) {
    u8 value = 0;
    bpf_probe_read_user(&value, sizeof(value), (void *)address);
    return value;
}

static __always_inline bool is_thread(const struct python *python, u64 state, u64 self) {
    return state && user_word(state + python->tstate_thread_id) == self;
}

static __always_inline u64 innermost_frame(const struct python *python, u64 state) {
    u64 frame = user_word(state + python->tstate_frame);
    if (python->frame_via == FRAME_CFRAME)
        return frame ? user_word(frame + python->cframe_current_frame) : 0;
    return frame;
}

/* On the way through the thread states of all interpreters, newest first. */
struct state_search {
    u64 thread; /* what pthread_self() gives */
    u64 interpreter;
    u64 state; /* the next one; 0 at the end of an interpreter's */
    u64 found;
    u64 lowest;
    u32 is_running; /* the one that was found has frames */
    u32 is_over;
    u32 is_cut;   /* there are more than could be looked at */
    u32 is_brief; /* one turn is enough */
    u32 tries;
    u32 reserved;
};

static __always_inline void look_at_state(const struct python *python, struct state_search *search,
                                          u64 state) {
    if (!is_thread(python, state, search->thread))
        return;
    u64 at = python->frame_via == FRAME_CFRAME ? user_word(state + python->tstate_frame) : 0;
    bool is_running = innermost_frame(python, state) != 0;
    if (is_running ? !search->is_running || at < search->lowest : !search->found) {
        search->found = state;
        search->lowest = at;
        search->is_running = is_running;
    }
    if (python->tstate_active_mask &&
        (user_half(state + python->tstate_status) & python->tstate_active_mask)) {
        search->found = state;
        search->is_over = 1;
    }
}

/* Global, and so is what calls it: the verifier then goes through each loop once. It does so round by round,
 * and a round that only calls another function is a short one. */
__noinline int look_at_states(struct python *python, struct state_search *search) {
    if (!python || !search)
        return 0;
    for (u32 i = 0; i < PYTHON_STATES && !search->is_over; i++) {
        u64 state = search->state, *next = state ? &search->state : &search->interpreter;
        u64 from = state ? state + python->tstate_next : search->interpreter + python->interp_next;
        if (state)
            look_at_state(python, search, state);
        /* Memory that is not there now ends a list too soon. */
        if (bpf_probe_read_user(next, sizeof(*next), (void *)from))
            search->is_cut = search->is_over = 1;
        else if (!state && search->interpreter)
            search->state = user_word(search->interpreter + python->interp_threads_head);
        else if (!state)
            search->is_over = 1;
    }
    return 0;
}

__noinline int begin_search(struct python *python, struct state_search *search) {
    if (!python || !search)
        return 0;
    search->interpreter = user_word(python->runtime + python->interpreters_head);
    search->state = search->interpreter ? user_word(search->interpreter + python->interp_threads_head) : 0;
    search->found = 0;
    search->is_running = 0;
    search->is_over = !search->interpreter;
    search->is_cut = 0;
    return 0;
}

__noinline int take_turn(struct python *python, struct state_search *search) {
    if (!python || !search)
        return 0;
    for (u32 i = 0; i < PYTHON_TIMES && !search->is_over; i++)
        look_at_states(python, search);
    /* Threads come and go meanwhile: the way may have led through one that was gone. */
    if (!search->is_brief && search->is_cut && search->tries++ < PYTHON_TRIES)
        begin_search(python, search);
    return 0;
}

/* New states come first in their list. */
__noinline int look_at_newest(struct python *python, struct state_search *search) {
    if (!python || !search)
        return 0;
    begin_search(python, search);
    look_at_states(python, search);
    return 0;
}

/* The current thread's state in the interpreter. With several interpreters a thread has several: the one
 * that is active, else of those with frames the one whose eval loop is the furthest down the native stack
 * (3.11 and 3.12 have a struct there), else that of the newest interpreter, where a thread goes last. One
 * without frames is the thread's, too: a native thread that calls Python now and then keeps it meanwhile.
 *
 * A thread that has none would go through all of them with every call. So where the long way was in vain a
 * moment ago, the first turn is enough. */
__noinline int find_state(struct python *python, struct state_search *search) {
    if (!python || !search)
        return 0;
    begin_search(python, search);
    for (u32 i = 0; i < PYTHON_TURNS && !search->is_over; i++) {
        take_turn(python, search);
        if (search->is_brief)
            return 0;
    }
    if (!search->is_over)
        search->is_cut = 1;
    return 0;
}

/* The state the thread was known by before, where it is still that. One without frames may be a past one: of
 * a native thread that gets a new state for each call of Python. */
static __always_inline u64 remembered_state(struct python *python, const struct task *task,
                                            struct state_search *search, u64 self) {
    u64 first = user_word(python->runtime + python->interpreters_head);
    bool only = first && !user_word(first + python->interp_next);
    u64 state = task->python_thread;
    if (!only || !is_thread(python, state, self))
        return 0;
    if (innermost_frame(python, state))
        return state;
    look_at_newest(python, search);
    return search->is_running ? search->found : state;
}

static __always_inline u64 python_thread(struct python *python, struct task *task,
                                         struct state_search *search, u64 self) {
    search->thread = self;
    search->is_cut = 0;
    u64 state = remembered_state(python, task, search, self);
    if (state)
        return state;
    u32 window = bpf_ktime_get_ns() / WINDOW_NS;
    search->tries = 0;
    search->is_brief = task->python_missed == window;
    find_state(python, search);
    task->python_thread = search->found;
    if (!search->found)
        task->python_missed = window;
    return search->found;
}

/* The same in an interrupt, where time is short: one turn, and after one that was in vain only the newest
 * states. A turn that did not get to the end says nothing about the thread, and so must not shorten the search
 * of others. */
static __always_inline u64 python_thread_in_interrupt(struct python *python, struct task *task,
                                                      struct state_search *search, u64 self) {
    search->thread = self;
    u64 state = remembered_state(python, task, search, self);
    if (state)
        return state;
    u32 window = bpf_ktime_get_ns() / WINDOW_NS;
    search->tries = 0;
    search->is_brief = 1;
    if (task->python_missed == window)
        look_at_newest(python, search);
    else
        find_state(python, search);
    if (search->found)
        task->python_thread = search->found;
    else if (search->is_over && !search->is_cut)
        task->python_missed = window;
    return search->found;
}

/* Whether the thread's interpreter is collecting garbage, in the thread's own time: without the lock it runs
 * beside the collection. -1 where that is not known. */
static __always_inline s32 is_collecting(const struct python *python, u64 state) {
    u64 interpreter = python->interp_collecting ? user_word(state + python->tstate_interp) : 0;
    if (!interpreter)
        return -1;
    u64 holder = python->gil ? user_word(python->gil + python->gil_last_holder) : 0;
    if (holder && holder != state)
        return 0;
    return user_half(interpreter + python->interp_collecting) != 0;
}
