// A program's own handlers of fork may call the library, whether they were registered before it was loaded or
// after, and may wait for a lock that another thread holds around such a call. The calls here open
// descriptors, which the library does one at a time.
#include "kit.h"

#include <sys/wait.h>

enum { LEN = 4 << 20 };

static unsigned char *device, *host;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int is_used, ran, is_held, is_forking;

static void reserve(void)
{
    void *addresses = NULL;
    OK(aclrtReserveMemAddress(&addresses, LEN, 0, NULL, 0));
    OK(aclrtReleaseMemAddress(addresses));
}

static void use(void)
{
    if (is_used) {
        ran++;
        reserve();
        poke(device, host, LEN);
    }
}

static void refused_in_child(void)
{
    if (is_used) {
        CHECK(aclrtMemcpy(device, LEN, host, LEN, H2D), ACL_ERROR_RT_CONTEXT_NULL);
    }
}

static void take(void)
{
    __atomic_store_n(&is_forking, 1, __ATOMIC_SEQ_CST);
    THAT(pthread_mutex_lock(&lock) == 0);
}

static void give(void)
{
    THAT(pthread_mutex_unlock(&lock) == 0);
}

static void register_early(void)
{
    THAT(pthread_atfork(use, use, refused_in_child) == 0);
}

// Runs before the library is loaded: its handlers run between those of the library.
__attribute__((section(".preinit_array"), used)) static void (*const early)(void) = register_early;

// Holds the lock until the handler waits for it, and a call longer.
static void *reserve_under_lock(void *unused)
{
    OK(aclrtSetDevice(0));
    THAT(pthread_mutex_lock(&lock) == 0);
    __atomic_store_n(&is_held, 1, __ATOMIC_SEQ_CST);
    while (!__atomic_load_n(&is_forking, __ATOMIC_SEQ_CST)) {
        sched_yield();
    }
    reserve();
    give();
    return unused;
}

static void make_child(void)
{
    int status = 0;
    pid_t child = fork();
    THAT(child >= 0);
    if (child == 0) {
        refused_in_child();
        _exit(0);
    }
    THAT(waitpid(child, &status, 0) == child);
    CHECK(status, 0);
}

int main(void)
{
    pthread_t thread;
    // A program that hangs ends by this.
    alarm(60);
    THAT(pthread_atfork(use, use, refused_in_child) == 0);
    THAT(pthread_atfork(take, give, give) == 0);
    begin();
    device = device_memory(1, LEN), host = pageable(2, LEN);

    is_used = 1;
    make_child();
    CHECK(ran, 4);
    HOLDS(device, 2, LEN);

    is_used = is_forking = 0;
    THAT(pthread_create(&thread, NULL, reserve_under_lock, NULL) == 0);
    while (!__atomic_load_n(&is_held, __ATOMIC_SEQ_CST)) {
        sched_yield();
    }
    make_child();
    THAT(pthread_join(thread, NULL) == 0);

    OK(aclrtFree(device));
    free(host);
    return finish("handlers of fork call the library");
}
