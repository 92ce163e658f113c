// Functions of libraries that only some commands need.
#include "library.h"

#include <dlfcn.h>

#include "options.h"

void *library_open(const char *name) {
    void *library = dlopen(name, RTLD_NOW);
    if (!library)
        options_refuse("cannot load %s: %s", name, dlerror());
    return library;
}

void *library_function(void *library, const char *name) {
    void *function = dlsym(library, name);
    if (!function)
        options_refuse("the library has no function %s", name);
    return function;
}
