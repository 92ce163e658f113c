// Code made at run time, with a map of it for perf. x86-64.
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int cudaMalloc(void **, size_t);

static void *memory;
static int (*code)(int (*run)(size_t), size_t bytes);
static char map_path[64];

static __attribute__((noinline)) int allocate(size_t bytes) {
    int ret = cudaMalloc(&memory, bytes);
    return ret + !memory;
}

void prepare(void) {
    static const unsigned char bytes[] = {
        0x55,             // push %rbp
        0x48, 0x89, 0xe5, // mov %rsp,%rbp
        0x48, 0x89, 0xf8, // mov %rdi,%rax
        0x48, 0x89, 0xf7, // mov %rsi,%rdi
        0xff, 0xd0,       // call *%rax
        0x5d,             // pop %rbp
        0xc3,             // ret
    };
    void *place = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memcpy(place, bytes, sizeof(bytes));
    mprotect(place, 4096, PROT_READ | PROT_EXEC);
    memcpy(&code, &place, sizeof(code));
    snprintf(map_path, sizeof(map_path), "/tmp/perf-%d.map", getpid());
    FILE *map = fopen(map_path, "w");
    fprintf(map, "%lx %zx jitted_step\n", (unsigned long)place, sizeof(bytes));
    fclose(map);
}

int call(size_t bytes) {
    int ret = code(allocate, bytes);
    unlink(map_path);
    return ret;
}
