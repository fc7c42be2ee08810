// What most of the C programs need: memory with a known content, a gate that holds a stream, and a watch that
// sees whether a call waited for its stream. No sleep and no clock: a program that waits for something that
// never comes hangs, and whoever started it ends it.
#ifndef FERRY_TESTS_KIT_H
#define FERRY_TESTS_KIT_H

#include "check.h"

#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

#define H2H ACL_MEMCPY_HOST_TO_HOST
#define H2D ACL_MEMCPY_HOST_TO_DEVICE
#define D2H ACL_MEMCPY_DEVICE_TO_HOST
#define D2D ACL_MEMCPY_DEVICE_TO_DEVICE
#define INNER ACL_MEMCPY_INNER_DEVICE_TO_DEVICE

// Addresses that no process has: below the lowest that can be mapped, and outside what processors translate.
#define LOW_GARBAGE ((void *)(uintptr_t)0x40)
#define HIGH_GARBAGE ((void *)(uintptr_t)0x8000000000000040u)

static inline void begin(void)
{
    OK(aclInit(NULL));
    OK(aclrtSetDevice(0));
}

static inline int finish(const char *what)
{
    OK(aclrtResetDevice(0));
    OK(aclFinalize());
    printf("ok: %s\n", what);
    return 0;
}

// Memory
// ---------------------------------------------------------------------------------------------------------

static inline void pattern(void *to, unsigned seed, size_t len)
{
    unsigned char *bytes = (unsigned char *)to;
    size_t i;
    for (i = 0; i < len; i++) {
        bytes[i] = (unsigned char)(seed * 37 + i * 7 + (i >> 8) * 3);
    }
}

// Pageable host memory that holds a pattern.
static inline unsigned char *pageable(unsigned seed, size_t len)
{
    unsigned char *memory = (unsigned char *)malloc(len);
    THAT(memory != NULL);
    pattern(memory, seed, len);
    return memory;
}

// Page-locked host memory that holds a pattern.
static inline unsigned char *pinned(unsigned seed, size_t len)
{
    void *memory = NULL;
    OK(aclrtMallocHost(&memory, len));
    pattern(memory, seed, len);
    return (unsigned char *)memory;
}

// Writes host bytes to device memory, and back, without a stream.
static inline void poke(void *device, const void *from, size_t len)
{
    OK(aclrtMemcpy(device, len, from, len, H2D));
}

static inline void peek(void *to, const void *device, size_t len)
{
    OK(aclrtMemcpy(to, len, device, len, D2H));
}

// Device memory that holds a pattern.
static inline unsigned char *device_memory(unsigned seed, size_t len)
{
    unsigned char *bytes = pageable(seed, len);
    void *memory = NULL;
    OK(aclrtMalloc(&memory, len, ACL_MEM_MALLOC_NORMAL_ONLY));
    poke(memory, bytes, len);
    free(bytes);
    return (unsigned char *)memory;
}

// Device memory holds the pattern of this seed.
#define HOLDS(device, seed, len) kit_holds(__FILE__, __LINE__, #device, device, seed, len)

static inline void kit_holds(const char *file, int line, const char *what, const void *device, unsigned seed,
                             size_t len)
{
    unsigned char *want = pageable(seed, len);
    unsigned char *got = (unsigned char *)malloc(len);
    THAT(got != NULL);
    peek(got, device, len);
    check_same(file, line, what, got, want, len);
    free(want);
    free(got);
}

// A gate: a host function that holds streams until it is opened
// ---------------------------------------------------------

struct gate {
    pthread_mutex_t lock;
    pthread_cond_t moved;
    int entered, left, open;
};

#define GATE {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0, 0, 0}

static inline void gate_hold(void *arg)
{
    struct gate *gate = (struct gate *)arg;
    pthread_mutex_lock(&gate->lock);
    gate->entered++;
    pthread_cond_broadcast(&gate->moved);
    while (!gate->open) {
        pthread_cond_wait(&gate->moved, &gate->lock);
    }
    gate->left++;
    pthread_cond_broadcast(&gate->moved);
    pthread_mutex_unlock(&gate->lock);
}

// Returns when the stream stands still in the gate: nothing submitted after this runs before gate_open.
static inline void gate_shut(struct gate *gate, aclrtStream stream)
{
    int wanted;
    pthread_mutex_lock(&gate->lock);
    while (gate->open && gate->left != gate->entered) {
        pthread_cond_wait(&gate->moved, &gate->lock);
    }
    gate->open = 0;
    wanted = gate->entered + 1;
    pthread_mutex_unlock(&gate->lock);

    OK(aclrtLaunchHostFunc(stream, gate_hold, gate));

    pthread_mutex_lock(&gate->lock);
    while (gate->entered < wanted) {
        pthread_cond_wait(&gate->moved, &gate->lock);
    }
    pthread_mutex_unlock(&gate->lock);
}

static inline void gate_open(struct gate *gate)
{
    pthread_mutex_lock(&gate->lock);
    gate->open = 1;
    pthread_cond_broadcast(&gate->moved);
    pthread_mutex_unlock(&gate->lock);
}

// A watch: a host function that holds a stream until it sees the caller either back or asleep
// ------------------------------

struct watch {
    pid_t caller;
    int calling, returned, early, done;
};

static inline int watch_get(int *value)
{
    return __atomic_load_n(value, __ATOMIC_SEQ_CST);
}

static inline void watch_set(int *value)
{
    __atomic_store_n(value, 1, __ATOMIC_SEQ_CST);
}

// How often a thread has left its CPU so far, or -1 while it is not asleep.
static inline long watch_asleep(pid_t thread)
{
    char path[64], line[256], state = '?';
    long willing = 0, unwilling = 0;
    FILE *status;
    snprintf(path, sizeof path, "/proc/self/task/%d/status", (int)thread);
    status = fopen(path, "r");
    if (status == NULL) {
        return -1;
    }
    while (fgets(line, sizeof line, status) != NULL) {
        (void)(sscanf(line, "State: %c", &state) == 1 ||
               sscanf(line, "voluntary_ctxt_switches: %ld", &willing) == 1 ||
               sscanf(line, "nonvoluntary_ctxt_switches: %ld", &unwilling) == 1);
    }
    fclose(status);
    return state == 'S' ? willing + unwilling : -1;
}

// Waits until a thread is asleep for good, in a call: true. False if it has come back from it.
static inline int watch_until_asleep(pid_t thread, int *returned)
{
    long before = -1;
    int still = 0;
    while (still < 50) {
        long now = watch_asleep(thread);
        if (watch_get(returned)) {
            return 0;
        }
        still = now >= 0 && now == before ? still + 1 : 0;
        before = now;
        sched_yield();
    }
    return 1;
}

static inline void watch_hold(void *arg)
{
    struct watch *watch = (struct watch *)arg;
    while (!watch_get(&watch->calling)) {
        sched_yield();
    }
    if (!watch_until_asleep(watch->caller, &watch->returned)) {
        watch_set(&watch->early);
    }
    watch_set(&watch->done);
}

// The call succeeds, and comes back only after everything before it in the stream is done: it was asleep, and
// had not come back, while a host function in front of it still held the stream.
#define WAITS(stream, call)                                                                   \
    do {                                                                                      \
        struct watch watch_ = {(pid_t)syscall(SYS_gettid), 0, 0, 0, 0};                       \
        OK(aclrtLaunchHostFunc(stream, watch_hold, &watch_));                                 \
        watch_set(&watch_.calling);                                                           \
        OK(call);                                                                             \
        watch_set(&watch_.returned);                                                          \
        while (!watch_get(&watch_.done)) {                                                    \
            sched_yield();                                                                    \
        }                                                                                     \
        check_that(__FILE__, __LINE__, #call " came back only when its stream had got there", \
                   !watch_.early);                                                            \
    } while (0)

// Threads
// ---------------------------------------------------------------------------------------------------------

// Runs a function in a thread of its own, to its end. A new thread has no context.
static inline void in_thread(void *(*body)(void *), void *arg)
{
    pthread_t thread;
    THAT(pthread_create(&thread, NULL, body, arg) == 0);
    THAT(pthread_join(thread, NULL) == 0);
}

static inline uint32_t device_count(void)
{
    uint32_t count = 0;
    OK(aclrtGetDeviceCount(&count));
    return count;
}

#endif
