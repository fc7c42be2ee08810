// pthread_cancel of a thread that is in a call: the thread ends, at the latest when the call returns, and the
// library goes on. The loops have no other place where a thread can be cancelled. Cancellation that is turned
// off stays off.
#include "kit.h"

#include <sys/mman.h>

enum { SMALL = 64, LARGE = 32 << 20 };

static aclrtContext context;
static aclrtStream stream;
static void *device;
static unsigned char *locked;
static int is_in, is_back, cleaned;
static pid_t waiter;

static void cleaner(void *unused)
{
    (void)unused;
    __atomic_add_fetch(&cleaned, 1, __ATOMIC_SEQ_CST);
}

static void allocate(void)
{
    void *memory = NULL;
    OK(aclrtMalloc(&memory, 4096, ACL_MEM_MALLOC_HUGE_FIRST));
    OK(aclrtFree(memory));
}

// Messages and logs.
static void fail(void)
{
    REFUSED(aclrtMemcpyAsync(LOW_GARBAGE, SMALL, LOW_GARBAGE, SMALL, H2D, stream));
}

// Fresh pages, which the library brings in.
static void copy_pageable(void)
{
    static unsigned char *pages;
    if (pages == NULL) {
        pages =
            (unsigned char *)mmap(NULL, LARGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    }
    madvise(pages, LARGE, MADV_DONTNEED);
    OK(aclrtMemcpy(device, LARGE, pages, LARGE, H2D));
}

static void copy_quickly(void)
{
    static unsigned count;
    OK(aclrtMemcpyAsync(device, SMALL, locked, SMALL, H2D, stream));
    if (++count % 1024 == 0) {
        OK(aclrtSynchronizeStream(stream));
    }
}

static void make_streams(void)
{
    aclrtStream other = NULL;
    OK(aclrtCreateStream(&other));
    OK(aclrtDestroyStream(other));
}

static void call_function(void *unused) { (void)unused; }

static void launch(void)
{
    OK(aclrtLaunchHostFunc(stream, call_function, NULL));
    OK(aclrtSynchronizeStream(stream));
}

static void export_memory(void)
{
    char key[65];
    OK(aclrtIpcMemGetExportKey(device, SMALL, key, sizeof(key), 0));
    OK(aclrtIpcMemClose(key));
}

static void *for_ever(void *body)
{
    pthread_cleanup_push(cleaner, NULL);
    OK(aclrtSetCurrentContext(context));
    for (;;) {
        ((void (*const *)(void))body)[0]();
        watch_set(&is_in);
    }
    pthread_cleanup_pop(0);
    return NULL;
}

static void *wait_once(void *type)
{
    int old;
    pthread_cleanup_push(cleaner, NULL);
    OK(aclrtSetCurrentContext(context));
    THAT(pthread_setcanceltype((int)(intptr_t)type, &old) == 0);
    waiter = (pid_t)syscall(SYS_gettid);
    watch_set(&is_in);
    OK(aclrtSynchronizeStream(stream));
    watch_set(&is_back);
    THAT(!"it ends when the call returns");
    pthread_cleanup_pop(0);
    return NULL;
}

static void *not_now(void *unused)
{
    int state, i;
    OK(aclrtSetCurrentContext(context));
    THAT(pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state) == 0);
    watch_set(&is_in);
    while (watch_get(&is_in) != 2) {
        allocate();
    }
    for (i = 0; i < 100; i++) {
        allocate();
        copy_quickly();
    }
    THAT(pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &state) == 0);
    THAT(state == PTHREAD_CANCEL_DISABLE);
    return unused;
}

static void *nothing(void *unused)
{
    (void)unused;
    return NULL;
}

static pthread_t start(void *(*body)(void *), void *argument)
{
    pthread_t thread;
    __atomic_store_n(&is_in, 0, __ATOMIC_SEQ_CST);
    cleaned = 0;
    // The C library may give a thread the memory of one that has ended, and with it that one's result.
    in_thread(nothing, NULL);
    THAT(pthread_create(&thread, NULL, body, argument) == 0);
    while (!watch_get(&is_in)) {
        sched_yield();
    }
    return thread;
}

static void join(pthread_t thread, int is_cancelled)
{
    void *result = NULL;
    THAT(pthread_join(thread, &result) == 0);
    CHECK(result == PTHREAD_CANCELED, is_cancelled);
    CHECK(cleaned, is_cancelled);
    allocate();
    copy_quickly();
    OK(aclrtSynchronizeStream(stream));
}

int main(void)
{
    static void (*const bodies[])(void) = {allocate,     fail,   copy_pageable, copy_quickly,
                                           make_streams, launch, export_memory};
    const int types[] = {PTHREAD_CANCEL_DEFERRED, PTHREAD_CANCEL_ASYNCHRONOUS};
    struct gate gate = GATE;
    pthread_t thread;
    size_t i;
    begin();
    OK(aclrtGetCurrentContext(&context));
    OK(aclrtCreateStream(&stream));
    device = device_memory(1, LARGE), locked = pinned(2, SMALL);
    for (i = 0; i < sizeof(bodies) / sizeof(bodies[0]); i++) {
        thread = start(for_ever, (void *)(uintptr_t)&bodies[i]);
        THAT(pthread_cancel(thread) == 0);
        join(thread, 1);
    }
    for (i = 0; i < 2; i++) {
        gate_shut(&gate, stream);
        thread = start(wait_once, (void *)(intptr_t)types[i]);
        // A thread may be cancelled at any instruction, the first of a call included, if it asks for that: no
        // function of a library can allow it. What counts is that it is safe in the call.
        THAT(watch_until_asleep(waiter, &is_back));
        THAT(pthread_cancel(thread) == 0);
        gate_open(&gate);
        join(thread, 1);
    }
    thread = start(not_now, NULL);
    THAT(pthread_cancel(thread) == 0);
    __atomic_store_n(&is_in, 2, __ATOMIC_SEQ_CST);
    join(thread, 0);
    OK(aclrtDestroyStream(stream));
    return finish("a cancelled thread ends when its call returns");
}
