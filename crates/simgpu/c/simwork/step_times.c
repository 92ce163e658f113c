// How long the steps of a loop took.
#include "step_times.h"

#include <inttypes.h>
#include <stdlib.h>

#include "truth.h"

static uint64_t *times, count, capacity;

void step_times_add(uint64_t ns) {
    if (count == capacity)
        times = realloc(times, (capacity = capacity ? capacity * 2 : 1024) * sizeof *times);
    times[count++] = ns;
}

uint64_t step_times_count(void) {
    return count;
}

static int by_value(const void *a, const void *b) {
    uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;
    return (left > right) - (left < right);
}

void step_times_tell(uint64_t elapsed_ns) {
    FILE *more = truth_more();
    fprintf(more, ",\"steps\":%" PRIu64 ",\"elapsed_ns\":%" PRIu64, count, elapsed_ns);
    if (!count)
        return;
    qsort(times, count, sizeof *times, by_value);
    fprintf(more,
            ",\"step_ns\":{\"min\":%" PRIu64 ",\"p50\":%" PRIu64 ",\"p99\":%" PRIu64 ",\"max\":%" PRIu64 "}",
            times[0], times[count / 2], times[count * 99 / 100], times[count - 1]);
}
