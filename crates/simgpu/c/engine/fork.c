// Fork: a child starts with fresh streams and unlocked locks, so that none of its calls waits for a thread of
// the parent.
#include <pthread.h>

#include "fault.h"
#include "graph.h"
#include "pool.h"
#include "stream.h"

static void before_fork(void) {
    streams_before_fork();
    pool_before_fork();
}

static void in_parent(void) {
    pool_in_parent();
    streams_in_parent();
}

static void in_child(void) {
    pool_in_child();
    streams_in_child();
    graphs_in_child();
    fault_in_child();
}

__attribute__((constructor)) static void watch_forks(void) {
    pthread_atfork(before_fork, in_parent, in_child);
}
