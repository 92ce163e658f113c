/* A native thread that makes GPU calls of its own and calls Python between them, as PyTorch's backward pass does. */
#include <pthread.h>

int PyGILState_Ensure(void);
void PyGILState_Release(int state);
void *PyEval_SaveThread(void);
void *PyObject_CallObject(void *callable, void *arguments);
int cudaMalloc(void **memory, unsigned long bytes);
int cudaFree(void *memory);

struct turns {
    void *callable;
    int count;
    int keeps_state;
};

static void *body(void *argument) {
    const struct turns *turns = argument;
    if (turns->keeps_state) {
        PyGILState_Ensure();
        PyEval_SaveThread();
    }
    for (int turn = 0; turn < turns->count; turn++) {
        void *memory;
        cudaMalloc(&memory, 4096);
        cudaFree(memory);
        int state = PyGILState_Ensure();
        PyObject_CallObject(turns->callable, 0);
        PyGILState_Release(state);
    }
    return 0;
}

/* With `keeps_state` the thread has one thread state of Python's all its life, else a new one for each call. */
void run_thread(void *callable, int count, int keeps_state) {
    struct turns turns = {callable, count, keeps_state};
    pthread_t thread;
    pthread_create(&thread, 0, body, &turns);
    pthread_join(thread, 0);
}
