// An event.
#include "event.h"

#include <stdlib.h>

#include "control.h"

#define MAGIC 0xe7e57000u

struct event {
    uint32_t magic;
    unsigned flags;
    pthread_mutex_t lock;
    struct mark *mark;     // of the latest record
    struct graph *capture; // set when that record was captured
};

struct event *event_create(unsigned flags) {
    struct event *event = calloc(1, sizeof *event);
    if (event) {
        event->magic = MAGIC;
        event->flags = flags;
        pthread_mutex_init(&event->lock, NULL);
    }
    return event;
}

bool event_is_valid(const struct event *event) {
    return event && event->magic == MAGIC;
}

void event_destroy(struct event *event) {
    event->magic = 0;
    mark_release(event->mark);
    pthread_mutex_destroy(&event->lock);
    free(event);
}

// A reference to the latest mark, or NULL when the event was never recorded.
static struct mark *latest_mark(struct event *event) {
    pthread_mutex_lock(&event->lock);
    struct mark *mark = mark_share(event->mark);
    pthread_mutex_unlock(&event->lock);
    return mark;
}

void event_record(struct event *event, struct stream *stream) {
    struct graph *capture = stream->capture;
    struct mark *mark = capture ? NULL : mark_create(stream);
    if (mark)
        stream_push(stream, (struct item){.kind = ITEM_RECORD, .mark = mark_share(mark)});
    pthread_mutex_lock(&event->lock);
    struct mark *before = event->mark;
    event->mark = mark;
    event->capture = capture;
    pthread_mutex_unlock(&event->lock);
    mark_release(before);
}

void event_hold_up(struct event *event, struct stream *stream) {
    if (event->capture) {
        stream->capture = event->capture;
        return;
    }
    struct mark *mark = latest_mark(event);
    if (mark)
        stream_push(stream, (struct item){.kind = ITEM_WAIT, .mark = mark});
}

void event_wait(struct event *event) {
    struct mark *mark = latest_mark(event);
    if (mark)
        mark_wait(mark, CONTROL(sync) || event->flags & EVENT_BLOCKING_SYNC);
    mark_release(mark);
}

bool event_is_done(struct event *event) {
    struct mark *mark = latest_mark(event);
    bool done = !mark || mark_is_done(mark);
    mark_release(mark);
    return done;
}

enum elapsed event_elapsed(struct event *start, struct event *end, int64_t *ns) {
    struct mark *first = latest_mark(start), *last = latest_mark(end);
    enum elapsed result = NEVER_RECORDED;
    if (first && last) {
        result = mark_is_done(first) && mark_is_done(last) ? ELAPSED : NOT_YET;
        *ns = (int64_t)(last->done_ns - first->done_ns);
    }
    mark_release(first);
    mark_release(last);
    return result;
}
