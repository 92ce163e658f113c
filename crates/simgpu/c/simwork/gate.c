// The gate.
#include "gate.h"

#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "../engine/clock.h"
#include "options.h"

static volatile sig_atomic_t signalled;

static void on_signal(int number) {
    (void)number;
    signalled = 1;
}

void gate_await_file(const char *path) {
    while (access(path, F_OK) != 0)
        sleep_ns(1000000);
}

static void announce_ready(void) {
    char ready[4096], unfinished[4096];
    snprintf(ready, sizeof ready, "%s.ready", option_start_file);
    snprintf(unfinished, sizeof unfinished, "%s.ready.part", option_start_file);
    FILE *file = fopen(unfinished, "w");
    if (!file)
        options_refuse("cannot write %s", unfinished);
    fprintf(file, "%d\n", (int)getpid());
    fclose(file);
    // Renamed into place, so that whoever sees the file can read the pid.
    rename(unfinished, ready);
}

void gate_wait(void) {
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART | SA_RESETHAND};
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    if (!option_start_file)
        return;
    announce_ready();
    while (access(option_start_file, F_OK) != 0 && !signalled)
        sleep_ns(1000000);
}

bool gate_is_stopped(void) {
    return signalled || (option_stop_file && access(option_stop_file, F_OK) == 0);
}
