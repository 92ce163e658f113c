// Options of a command.
#include "options.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../engine/control.h"

const char *option_start_file, *option_stop_file;
uint64_t option_live_ms;

static const struct option common[] = {
    TEXT("start-file", option_start_file,
         "when ready write FILE.ready (the pid), then wait until FILE exists"),
    TEXT("stop-file", option_stop_file, "stop when FILE exists"),
    NUMBER("live-ms", option_live_ms, "live so long after the work: what tools read of a process is gone with it"),
    END,
};

void options_refuse(const char *format, ...) {
    va_list values;
    va_start(values, format);
    fprintf(stderr, "simwork: ");
    vfprintf(stderr, format, values);
    fprintf(stderr, "\n");
    exit(2);
}

static void print_options(const struct option *options) {
    for (; options->name; options++) {
        printf("  --%-18s %s", options->name, options->about);
        if (options->kind == OPTION_NUMBER && *(uint64_t *)options->value == UINT64_MAX)
            printf(" [any]");
        else if (options->kind == OPTION_NUMBER)
            printf(" [%" PRIu64 "]", *(uint64_t *)options->value);
        else if (options->kind == OPTION_TEXT && *(const char **)options->value)
            printf(" [%s]", *(const char **)options->value);
        printf("\n");
    }
}

static const struct option *find(const struct option *options, const char *name) {
    for (; options->name; options++)
        if (strcmp(options->name, name) == 0)
            return options;
    return NULL;
}

static void set(const char *command, const struct option *option, const char *text) {
    if (option->kind == OPTION_TEXT)
        *(const char **)option->value = text;
    else if (option->kind == OPTION_FLAG)
        *(bool *)option->value = strcmp(text, "0") != 0;
    else if (!control_parse(text, option->value))
        options_refuse("%s: --%s wants a number, not \"%s\"", command, option->name, text);
}

static bool is_zero_or_one(const char *text) {
    return text && (strcmp(text, "0") == 0 || strcmp(text, "1") == 0);
}

void options_parse(const char *command, const char *about, char **arguments, const struct option *options) {
    for (; *arguments; arguments++) {
        if (strcmp(*arguments, "--help") == 0 || strcmp(*arguments, "-h") == 0) {
            printf("simwork %s: %s\n\nOptions:\n", command, about);
            print_options(options);
            print_options(common);
            exit(0);
        }
        if (strncmp(*arguments, "--", 2) != 0)
            options_refuse("%s: unknown argument \"%s\" (see simwork %s --help)", command, *arguments,
                           command);
        char name[64];
        snprintf(name, sizeof name, "%s", *arguments + 2);
        char *equals = strchr(name, '=');
        if (equals)
            *equals = '\0';
        const struct option *option = find(options, name);
        if (!option)
            option = find(common, name);
        if (!option)
            options_refuse("%s: unknown option --%s (see simwork %s --help)", command, name, command);
        const char *text = equals ? strchr(*arguments, '=') + 1 : arguments[1];
        if (!equals && option->kind == OPTION_FLAG && !is_zero_or_one(text))
            text = "1";
        else if (!equals && text)
            arguments++;
        if (!text)
            options_refuse("%s: --%s wants a value", command, name);
        set(command, option, text);
    }
}
