// The thread that PyTorch runs its backward passes in.
#define _GNU_SOURCE
#include "autograd.h"

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/prctl.h>

#include "options.h"

static pthread_t thread;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static bool wanted, ends;
static void (*run_pass)(void);

// The other one is woken when it can have the lock, as PyTorch's queues do it: it waits once.
static void set_wanted(bool value) {
    pthread_mutex_lock(&lock);
    wanted = value;
    pthread_mutex_unlock(&lock);
    pthread_cond_signal(&changed);
}

static void *serve(void *arg) {
    prctl(PR_SET_NAME, "pt_autograd_0");
    pthread_mutex_lock(&lock);
    while (!ends) {
        if (!wanted) {
            pthread_cond_wait(&changed, &lock);
            continue;
        }
        pthread_mutex_unlock(&lock);
        run_pass();
        set_wanted(false);
        pthread_mutex_lock(&lock);
    }
    pthread_mutex_unlock(&lock);
    return arg;
}

void autograd_start(void (*pass)(void)) {
    run_pass = pass;
    if (pthread_create(&thread, NULL, serve, NULL) != 0)
        options_refuse("no thread could be started");
}

void autograd_backward(void) {
    set_wanted(true);
    pthread_mutex_lock(&lock);
    while (wanted)
        pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
}

void autograd_stop(void) {
    pthread_mutex_lock(&lock);
    ends = true;
    pthread_cond_signal(&changed);
    pthread_mutex_unlock(&lock);
    pthread_join(thread, NULL);
}
