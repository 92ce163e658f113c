// Settings of the stand-in GPU. A value comes from the control page (a file shared with the outside, so that
// faults can be injected into a running process), else from the environment or the program itself, else from
// the default.
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum control_field {
#define CONTROL_FIELD(name, value, about) CONTROL_##name,
#include "control.def"
#undef CONTROL_FIELD
    CONTROL_COUNT
};

#define CONTROL_PAGE_BYTES 4096

// The page names its fields, so that any program can find them without this header.
struct control_entry {
    char name[24];
    _Atomic uint64_t value;
};

_Static_assert(CONTROL_COUNT * sizeof(struct control_entry) <= CONTROL_PAGE_BYTES,
               "the control page is full");

struct control_about {
    const char *name;
    const char *variable;
    const char *about;
    uint64_t value;
};

extern const struct control_about control_table[CONTROL_COUNT];
extern struct control_entry *control_page;
extern _Atomic uint64_t control_own[CONTROL_COUNT];
extern _Atomic bool control_ready;
// True in a library that runs inside of tools: then mistakes are not told on stderr.
extern bool control_quiet;

void control_init(void);

// Maps the control page in `path`, creating the file when it is missing. NULL, with a sentence on stderr, on
// failure.
struct control_entry *control_open(const char *path);

// The field called `name`, or CONTROL_COUNT.
enum control_field control_find(const char *name);

// Reads a number with an optional K, M or G (powers of 1024), or one of the words spin and block.
bool control_parse(const char *text, uint64_t *value);

static inline uint64_t control_get(enum control_field field) {
    if (__builtin_expect(!control_ready, 0))
        control_init();
    uint64_t shared = __atomic_load_n((uint64_t *)&control_page[field].value, __ATOMIC_RELAXED);
    return shared ? shared : __atomic_load_n((uint64_t *)&control_own[field], __ATOMIC_RELAXED);
}

#define CONTROL(name) control_get(CONTROL_##name)

// Takes a one-shot value: returns it and leaves zero behind.
uint64_t control_take(enum control_field field);

// Sets the value of this process alone; a non-zero value in the control page still wins.
void control_set_own(enum control_field field, uint64_t value);
