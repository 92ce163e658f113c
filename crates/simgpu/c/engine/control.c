// Settings of the stand-in GPU: the table, the environment, and the shared control page.
#define _GNU_SOURCE
#include "control.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

const struct control_about control_table[CONTROL_COUNT] = {
#define CONTROL_FIELD(name, value, about) {#name, "SIMGPU_" #name, about, value},
#include "control.def"
#undef CONTROL_FIELD
};

static struct control_entry private_page[CONTROL_COUNT];

struct control_entry *control_page = private_page;
_Atomic uint64_t control_own[CONTROL_COUNT];
_Atomic bool control_ready;
bool control_quiet;

enum control_field control_find(const char *name) {
    for (int field = 0; field < CONTROL_COUNT; field++)
        if (strcmp(control_table[field].name, name) == 0)
            return field;
    return CONTROL_COUNT;
}

bool control_parse(const char *text, uint64_t *value) {
    if (strcmp(text, "spin") == 0 || strcmp(text, "block") == 0) {
        *value = text[0] == 'b';
        return true;
    }
    char *end;
    errno = 0;
    unsigned long long number = strtoull(text, &end, 0);
    if (end == text || errno || text[0] == '-')
        return false;
    const char *suffixes = "KMG";
    const char *suffix = *end ? strchr(suffixes, *end) : NULL;
    if (suffix) {
        number <<= 10 * (suffix - suffixes + 1);
        end++;
    }
    *value = number;
    return *end == '\0';
}

static struct control_entry *refuse(const char *path, const char *why) {
    if (!control_quiet)
        fprintf(stderr, "simgpu: cannot use %s as a control page: %s\n", path, why);
    return NULL;
}

struct control_entry *control_open(const char *path) {
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (fd < 0)
        return refuse(path, strerror(errno));
    struct stat file;
    // A file of any other size is somebody's data: never overwrite it.
    if (fstat(fd, &file) != 0 || (file.st_size != 0 && file.st_size != CONTROL_PAGE_BYTES)) {
        close(fd);
        return refuse(path, "it exists and is something else");
    }
    if (ftruncate(fd, CONTROL_PAGE_BYTES) != 0) {
        close(fd);
        return refuse(path, strerror(errno));
    }
    struct control_entry *page = mmap(NULL, CONTROL_PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (page == MAP_FAILED)
        return refuse(path, strerror(errno));
    for (int field = 0; field < CONTROL_COUNT; field++) {
        // Processes that create the page at the same time write the same names.
        if (page[field].name[0] == '\0')
            strncpy(page[field].name, control_table[field].name, sizeof page[field].name - 1);
        if (strcmp(page[field].name, control_table[field].name) != 0) {
            munmap(page, CONTROL_PAGE_BYTES);
            return refuse(path, "its fields are of another version");
        }
    }
    return page;
}

static void read_environment(void) {
    for (int field = 0; field < CONTROL_COUNT; field++) {
        uint64_t value = control_table[field].value;
        char variable[64];
        snprintf(variable, sizeof variable, "%s", control_table[field].variable);
        for (char *letter = variable; *letter; letter++)
            if (*letter >= 'a' && *letter <= 'z')
                *letter -= 'a' - 'A';
        const char *text = getenv(variable);
        if (text && *text && !control_parse(text, &value) && !control_quiet)
            fprintf(stderr, "simgpu: %s=%s is not a number\n", variable, text);
        // Zero asks for the default, in the environment as in the page.
        control_own[field] = value ? value : control_table[field].value;
    }
    const char *path = getenv("SIMGPU_CONTROL");
    if (path && *path) {
        struct control_entry *page = control_open(path);
        if (page)
            control_page = page;
    }
    control_ready = true;
}

void control_init(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, read_environment);
}

uint64_t control_take(enum control_field field) {
    control_init();
    uint64_t value = __atomic_exchange_n((uint64_t *)&control_page[field].value, 0, __ATOMIC_SEQ_CST);
    return value ? value : __atomic_exchange_n((uint64_t *)&control_own[field], 0, __ATOMIC_SEQ_CST);
}

void control_set_own(enum control_field field, uint64_t value) {
    control_init();
    control_own[field] = value;
}
