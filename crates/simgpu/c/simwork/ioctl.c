// ioctl: ioctls on a device file, such as those that drivers under the libraries make.
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "../engine/clock.h"
#include "commands.h"
#include "gate.h"
#include "options.h"
#include "truth.h"

static const char *device = "/dev/null";
static uint64_t count = 100, gap_us, request = 0x5401; // TCGETS: reads, and most devices refuse it

int command_ioctl(char **arguments) {
    const struct option options[] = {
        TEXT("device", device, "the device file"),
        NUMBER("count", count, "ioctls; 0: until stopped"),
        NUMBER("gap-us", gap_us, "sleep after each"),
        NUMBER("request", request, "number of the request, which may fail"),
        END,
    };
    options_parse("ioctl", "ioctls on a device file", arguments, options);
    int fd = open(device, O_RDWR | O_CLOEXEC);
    if (fd < 0)
        fd = open(device, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        options_refuse("ioctl: cannot open %s: %s", device, strerror(errno));
    truth_begin();
    gate_wait();
    char room[4096]; // for whatever the request writes
    uint64_t done = 0, failed = 0;
    for (; (count == 0 || done < count) && !gate_is_stopped(); done++) {
        failed += ioctl(fd, request, room) != 0;
        if (gap_us)
            sleep_ns(gap_us * 1000);
    }
    close(fd);
    fprintf(truth_more(), ",\"device\":\"%s\",\"request\":%" PRIu64 ",\"count\":%" PRIu64, device, request,
            done);
    fprintf(truth_more(), ",\"failed\":%" PRIu64, failed);
    truth_print("ioctl");
    return 0;
}
