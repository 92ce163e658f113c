// A file that batches are read from, round and round.
#define _GNU_SOURCE
#include "data_file.h"

#include <fcntl.h>
#include <unistd.h>

#include "options.h"

static int file = -1;
static const char *name;
static bool through_cache;
static uint64_t at;

void data_file_open(const char *path, bool cached) {
    name = path;
    through_cache = cached;
    if ((file = open(path, O_RDONLY | O_CLOEXEC)) < 0)
        options_refuse("cannot open %s", path);
}

void data_file_read(void *buffer, uint64_t room, uint64_t bytes) {
    for (uint64_t done = 0; file >= 0 && done < bytes;) {
        uint64_t want = bytes - done < room ? bytes - done : room;
        ssize_t got = pread(file, buffer, want, (off_t)at);
        if (got <= 0) {
            if (at == 0)
                options_refuse("cannot read %s", name);
            at = 0;
            continue;
        }
        // All of the file: what is cached in larger pieces than are read would stay.
        if (!through_cache)
            posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
        at += (uint64_t)got;
        done += (uint64_t)got;
    }
}
