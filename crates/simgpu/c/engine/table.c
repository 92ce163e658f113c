// A table from addresses to sizes: open addressing, with deletion by shifting back (no tombstones to clean
// up).
#include "table.h"

#include <stdlib.h>

static size_t home(const struct table *table, uint64_t key) {
    return (size_t)((key * 0x9e3779b97f4a7c15u) >> 20) & (table->capacity - 1);
}

static void place(struct table *table, uint64_t key, uint64_t value) {
    size_t at = home(table, key);
    while (table->slots[at].key && table->slots[at].key != key)
        at = (at + 1) & (table->capacity - 1);
    table->count += table->slots[at].key == 0;
    table->slots[at] = (struct slot){key, value};
}

static bool grow(struct table *table) {
    struct table bigger = {.capacity = table->capacity ? table->capacity * 2 : 64};
    bigger.slots = calloc(bigger.capacity, sizeof *bigger.slots);
    if (!bigger.slots)
        return false;
    for (size_t at = 0; at < table->capacity; at++)
        if (table->slots[at].key)
            place(&bigger, table->slots[at].key, table->slots[at].value);
    free(table->slots);
    *table = bigger;
    return true;
}

bool table_put(struct table *table, uint64_t key, uint64_t value) {
    if ((table->count + 1) * 2 > table->capacity && !grow(table))
        return false;
    place(table, key, value);
    return true;
}

uint64_t *table_get(const struct table *table, uint64_t key) {
    if (!table->capacity || !key)
        return NULL;
    size_t at = home(table, key);
    while (table->slots[at].key) {
        if (table->slots[at].key == key)
            return &table->slots[at].value;
        at = (at + 1) & (table->capacity - 1);
    }
    return NULL;
}

bool table_take(struct table *table, uint64_t key, uint64_t *value) {
    uint64_t *found = table_get(table, key);
    if (!found)
        return false;
    if (value)
        *value = *found;
    size_t mask = table->capacity - 1;
    size_t hole = (size_t)((struct slot *)((char *)found - offsetof(struct slot, value)) - table->slots);
    for (size_t at = (hole + 1) & mask; table->slots[at].key; at = (at + 1) & mask) {
        // An entry may move back into the hole unless its home lies after the hole.
        if (((at - home(table, table->slots[at].key)) & mask) >= ((at - hole) & mask)) {
            table->slots[hole] = table->slots[at];
            hole = at;
        }
    }
    table->slots[hole].key = 0;
    table->count--;
    return true;
}
