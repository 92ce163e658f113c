// ctl: prints or sets the fields of a control page.
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "../engine/clock.h"
#include "../engine/control.h"
#include "commands.h"
#include "options.h"

static void print_help(void) {
    printf("simwork ctl FILE [NAME=VALUE ...]: prints or sets the fields of a control page\n\n"
           "Processes started with SIMGPU_CONTROL=FILE follow the page while they run. Zero: as the "
           "environment\n"
           "(SIMGPU_<NAME>) says, or the default. Values may end in K, M or G.\n\nFields:\n");
    for (int field = 0; field < CONTROL_COUNT; field++)
        printf("  %-20s %s [%" PRIu64 "]\n", control_table[field].name, control_table[field].about,
               control_table[field].value);
}

static void set(struct control_entry *page, const char *assignment) {
    char name[64];
    const char *equals = strchr(assignment, '=');
    if (!equals)
        options_refuse("ctl: \"%s\" is not NAME=VALUE", assignment);
    snprintf(name, sizeof name, "%.*s", (int)(equals - assignment), assignment);
    enum control_field field = control_find(name);
    if (field == CONTROL_COUNT)
        options_refuse("ctl: there is no field \"%s\" (see simwork ctl --help)", name);
    uint64_t value;
    if (!control_parse(equals + 1, &value))
        options_refuse("ctl: %s wants a number, not \"%s\"", name, equals + 1);
    page[field].value = value;
    futex_wake_all((_Atomic uint32_t *)&page[field].value);
}

int command_ctl(char **arguments) {
    if (!arguments[0] || strcmp(arguments[0], "--help") == 0 || strcmp(arguments[0], "-h") == 0) {
        print_help();
        return arguments[0] ? 0 : 2;
    }
    struct control_entry *page = control_open(arguments[0]);
    if (!page)
        return 2;
    for (char **assignment = arguments + 1; *assignment; assignment++)
        set(page, *assignment);
    for (int field = 0; !arguments[1] && field < CONTROL_COUNT; field++)
        printf("%s=%" PRIu64 "\n", page[field].name, page[field].value);
    return 0;
}
