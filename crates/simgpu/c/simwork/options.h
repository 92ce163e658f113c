// Options of a command: one table gives the parsing and the help.
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct option {
    const char *name; // without the dashes
    enum { OPTION_NUMBER, OPTION_TEXT, OPTION_FLAG } kind;
    void *value; // uint64_t *, const char ** or bool *, holding the default
    const char *about;
};

#define NUMBER(name, variable, about)                                                                        \
    { name, OPTION_NUMBER, &(variable), about }
#define TEXT(name, variable, about)                                                                          \
    { name, OPTION_TEXT, &(variable), about }
// Given alone, or with 0 or 1.
#define FLAG(name, variable, about)                                                                          \
    { name, OPTION_FLAG, &(variable), about }
#define END                                                                                                  \
    { 0 }

// Reads the options of `command`, or prints its help and exits. Ends the process with status 2 on a mistake.
void options_parse(const char *command, const char *about, char **arguments, const struct option *options);

// Ends the process with status 2 after one sentence.
_Noreturn void options_refuse(const char *format, ...) __attribute__((format(printf, 1, 2)));

// Options that every workload has.
extern const char *option_start_file, *option_stop_file;
extern uint64_t option_live_ms;
