// A program whose library makes one GPU call through known functions: main BYTES. Before that it makes
// another call, so that whoever traces knows it, writes its pid into VICTIM_GATE.ready and waits for
// VICTIM_GATE. It ends right after the call.
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int cudaFree(void *);
int call(size_t bytes);

// Not every library has it.
__attribute__((weak)) void prepare(void);

static void wait_at_gate(const char *gate) {
    char part[4096], ready[4096];
    snprintf(part, sizeof(part), "%s.part", gate);
    snprintf(ready, sizeof(ready), "%s.ready", gate);
    FILE *file = fopen(part, "w");
    if (!file)
        exit(3);
    fprintf(file, "%d", getpid());
    fclose(file);
    rename(part, ready);
    while (access(gate, F_OK))
        usleep(1000);
}

int main(int count, char **words) {
    if (prepare)
        prepare();
    cudaFree(NULL);
    wait_at_gate(getenv("VICTIM_GATE"));
    // Nobody can read it by its name from here on.
    if (getenv("VICTIM_DELETE"))
        unlink(getenv("VICTIM_DELETE"));
    int ret = call(count > 1 ? strtoul(words[1], NULL, 10) : 4096);
    _exit(ret ? 4 : 0);
}
