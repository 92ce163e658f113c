// A table from addresses (or handles) to sizes. Not locked: its owner is.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct table {
    struct slot {
        uint64_t key; // zero: empty
        uint64_t value;
    } * slots;
    size_t capacity;
    size_t count;
};

bool table_put(struct table *table, uint64_t key, uint64_t value);
uint64_t *table_get(const struct table *table, uint64_t key);
// Removes `key`; false when it is not there. `value` may be NULL.
bool table_take(struct table *table, uint64_t key, uint64_t *value);
