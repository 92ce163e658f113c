// A process that prepares batches for another.
#define _GNU_SOURCE
#include "loader.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../engine/clock.h"
#include "commands.h"
#include "data_file.h"
#include "options.h"
#include "truth.h"

// Batches that are asked for before they are needed: PyTorch's prefetch_factor.
#define PREFETCHED 2
#define READ_ROOM (1 << 20)

static int requests = -1, batches = -1;
static pid_t worker;
static uint64_t asked;

// Not inlined, and not static: a name for stacks.
__attribute__((noinline)) void loader_prepare(const struct loader_work *work) {
    static char room[READ_ROOM];
    data_file_read(room, sizeof room, work->read_bytes);
    if (work->compute_us)
        spin_ns(work->compute_us * 1000);
    if (work->sleep_us)
        sleep_ns(work->sleep_us * 1000);
}

static _Noreturn void serve(const struct loader_work *work, int from, int to) {
    prctl(PR_SET_NAME, "pt_data_worker");
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    workload_pin(work->cpu);
    uint64_t number;
    while (read(from, &number, sizeof number) == sizeof number) {
        loader_prepare(work);
        if (write(to, &number, sizeof number) != sizeof number)
            break;
    }
    _exit(0);
}

static void ask(void) {
    if (write(requests, &asked, sizeof asked) != sizeof asked)
        options_refuse("the worker is gone");
    asked++;
}

void loader_start(const struct loader_work *work) {
    int asks[2], answers[2];
    if (pipe2(asks, O_CLOEXEC) != 0 || pipe2(answers, O_CLOEXEC) != 0 || (worker = fork()) < 0)
        options_refuse("no worker could be started");
    if (worker == 0) {
        close(asks[1]);
        close(answers[0]);
        serve(work, asks[0], answers[1]);
    }
    close(asks[0]);
    close(answers[1]);
    requests = asks[1];
    batches = answers[0];
    truth_child(worker);
    while (asked < PREFETCHED)
        ask();
}

void loader_next(void) {
    uint64_t number;
    if (read(batches, &number, sizeof number) != sizeof number)
        options_refuse("the worker is gone");
    ask();
}

void loader_stop(void) {
    close(requests);
    close(batches);
    waitpid(worker, NULL, 0);
}
