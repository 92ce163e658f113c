// The native half of a stand-in for PyTorch: operators that launch, and the thread of the backward pass.
#define _GNU_SOURCE
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <time.h>

typedef struct { unsigned x, y, z; } dim3;
int cudaLaunchKernel(const void *, dim3, dim3, void **, size_t, void *);
int cudaMemcpy(void *, const void *, size_t, int);
int cudaMemcpyAsync(void *, const void *, size_t, int, void *);
int cudaStreamSynchronize(void *);
int cudaDeviceSynchronize(void);
int cudaMalloc(void **, size_t);
int cudaFree(void *);
void **__cudaRegisterFatBinary(void *);
void __cudaRegisterFunction(void **, const char *, char *, const char *, int, void *, void *, void *, void *, int *);
void simgpu_set(const char *, uint64_t);
void simgpu_publish_busy(void);

#define KERNELS 12
static char stubs[KERNELS], names[KERNELS][32];
static void *device;
static uint64_t dispatch_ns = 15000;

static uint64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

// Whoever has a real-time class is not preempted.
static void spin(uint64_t ns) {
    uint64_t end = now_ns() + ns;
    while (now_ns() < end) {}
}

static void launch(int kernel) {
    spin(dispatch_ns);
    cudaLaunchKernel(&stubs[kernel % KERNELS], (dim3){128, 2, 1}, (dim3){256, 1, 1}, NULL, 0, NULL);
}

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int wanted;

static void *serve(void *arg) {
    prctl(PR_SET_NAME, "pt_autograd_0");
    for (;;) {
        pthread_mutex_lock(&lock);
        while (!wanted)
            pthread_cond_wait(&changed, &lock);
        int count = wanted;
        pthread_mutex_unlock(&lock);
        for (int at = 0; at < count; at++)
            launch(at % 5 + 4);
        pthread_mutex_lock(&lock);
        wanted = 0;
        pthread_mutex_unlock(&lock);
        pthread_cond_signal(&changed);
    }
    return arg;
}

void torch_start(uint64_t kernel_us, uint64_t dispatch_us) {
    static char image[] = "torch";
    void **binary = __cudaRegisterFatBinary(image);
    for (int at = 0; at < KERNELS; at++) {
        snprintf(names[at], sizeof names[at], "_Z7kernel%02dPfi", at);
        __cudaRegisterFunction(binary, &stubs[at], names[at], names[at], -1, NULL, NULL, NULL, NULL, NULL);
    }
    dispatch_ns = dispatch_us * 1000;
    simgpu_set("kernel_ns", kernel_us * 1000);
    cudaMalloc(&device, 256 << 20);
    pthread_t thread;
    pthread_create(&thread, NULL, serve, NULL);
    pthread_detach(thread);
}

void torch_op(int kernel) { launch(kernel); }

void torch_backward(int count) {
    pthread_mutex_lock(&lock);
    wanted = count;
    pthread_mutex_unlock(&lock);
    pthread_cond_signal(&changed);
    pthread_mutex_lock(&lock);
    while (wanted)
        pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
}

float torch_item(void) {
    float loss = 0;
    cudaMemcpyAsync(&loss, device, sizeof loss, 2, NULL);
    cudaStreamSynchronize(NULL);
    return loss;
}

void torch_synchronize(void) { cudaDeviceSynchronize(); }
void torch_to_device(const void *from, size_t bytes) { cudaMemcpy(device, from, bytes, 1); }
void torch_to_device_async(const void *from, size_t bytes) { cudaMemcpyAsync(device, from, bytes, 1, NULL); }
void torch_to_host(void *to, size_t bytes) { cudaMemcpy(to, device, bytes, 2); }
void *torch_alloc(size_t bytes) { void *at = NULL; cudaMalloc(&at, bytes); return at; }
void torch_free(void *at) { cudaFree(at); }
void torch_publish(void) { simgpu_publish_busy(); }

// A lock of native code, as a library has one.
static pthread_mutex_t native = PTHREAD_MUTEX_INITIALIZER;
void torch_lock(void) { pthread_mutex_lock(&native); }
void torch_unlock(void) { pthread_mutex_unlock(&native); }
void torch_compute(uint64_t us) { spin(us * 1000); }
