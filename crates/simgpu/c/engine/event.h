// An event: the latest place in a stream where somebody recorded it.
#pragma once

#include "stream.h"

struct event;

// Whoever waits for an event with this flag does not spin. The driver's flag.
#define EVENT_BLOCKING_SYNC 1

struct event *event_create(unsigned flags);
bool event_is_valid(const struct event *event);
void event_destroy(struct event *event);

void event_record(struct event *event, struct stream *stream);
// Makes later work of `stream` wait for `event`; joins the capture that the event was recorded in.
void event_hold_up(struct event *event, struct stream *stream);
void event_wait(struct event *event);
// An event that was never recorded is done.
bool event_is_done(struct event *event);
// Nanoseconds from one event to the other, once both are done.
enum elapsed {
    ELAPSED,
    NOT_YET,
    NEVER_RECORDED
} event_elapsed(struct event *start, struct event *end, int64_t *ns);
