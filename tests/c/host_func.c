// Host functions run once each, in the order of their stream, on a thread of the library, and one that blocks
// holds up its own stream only.
#include "kit.h"

#include <setjmp.h>
#include <signal.h>

enum { LEN = 4096, BLOCKED = 64, CALLS = 500 };

static struct gate gate = GATE;
static int next_call;
static pthread_t ran_on;

struct call {
    int number, seen;
};

static void in_order(void *arg)
{
    struct call *call = (struct call *)arg;
    call->seen = next_call++;
    ran_on = pthread_self();
}

struct look {
    const unsigned char *at;
    unsigned char seen;
};

static void look(void *arg)
{
    struct look *l = (struct look *)arg;
    l->seen = l->at[LEN - 1];
}

static void they_run_in_order(void)
{
    static struct call calls[CALLS];
    aclrtStream stream = NULL;
    int i;
    OK(aclrtCreateStream(&stream));
    for (i = 0; i < CALLS; i++) {
        calls[i].number = i;
        OK(aclrtLaunchHostFunc(stream, in_order, &calls[i]));
    }
    OK(aclrtSynchronizeStream(stream));
    for (i = 0; i < CALLS; i++) {
        CHECK(calls[i].seen, calls[i].number);
    }
    CHECK(next_call, CALLS);
    THAT(!pthread_equal(ran_on, pthread_self()));
    OK(aclrtDestroyStream(stream));
}

// Copies before it are done, copies after it have not begun.
static void they_stand_between_copies(void)
{
    aclrtStream stream = NULL;
    unsigned char *host = pinned(1, LEN), *a = device_memory(2, LEN), *b = device_memory(3, LEN);
    struct look looks[3];
    int i;
    for (i = 0; i < 3; i++) {
        looks[i].at = host;
        looks[i].seen = 0;
    }
    OK(aclrtMemset(a, LEN, 0xaa, LEN));
    OK(aclrtMemset(b, LEN, 0xbb, LEN));
    memset(host, 0x11, LEN);
    OK(aclrtCreateStream(&stream));
    OK(aclrtLaunchHostFunc(stream, look, &looks[0]));
    OK(aclrtMemcpyAsync(host, LEN, a, LEN, D2H, stream));
    OK(aclrtLaunchHostFunc(stream, look, &looks[1]));
    OK(aclrtMemcpyAsync(host, LEN, b, LEN, D2H, stream));
    OK(aclrtLaunchHostFunc(stream, look, &looks[2]));
    OK(aclrtSynchronizeStream(stream));
    CHECK(looks[0].seen, 0x11);
    CHECK(looks[1].seen, 0xaa);
    CHECK(looks[2].seen, 0xbb);
    OK(aclrtDestroyStream(stream));
    OK(aclrtFreeHost(host));
    OK(aclrtFree(a));
    OK(aclrtFree(b));
}

static void a_blocked_one_blocks_its_stream_only(void)
{
    aclrtStream streams[BLOCKED + 1];
    aclrtStreamStatus status = ACL_STREAM_STATUS_RESERVED;
    unsigned char *from = pinned(5, LEN), *device = device_memory(6, LEN);
    int i;
    for (i = 0; i <= BLOCKED; i++) {
        OK(aclrtCreateStream(&streams[i]));
    }
    for (i = 0; i < BLOCKED; i++) {
        gate_shut(&gate, streams[i]);
    }
    OK(aclrtMemcpyAsync(device, LEN, from, LEN, H2D, streams[BLOCKED]));
    OK(aclrtLaunchHostFunc(streams[BLOCKED], in_order, &(struct call){0, 0}));
    OK(aclrtSynchronizeStream(streams[BLOCKED]));
    HOLDS(device, 5, LEN);
    for (i = 0; i < BLOCKED; i++) {
        OK(aclrtStreamQuery(streams[i], &status));
        THAT(status == ACL_STREAM_STATUS_NOT_READY);
    }
    gate_open(&gate);
    for (i = 0; i <= BLOCKED; i++) {
        OK(aclrtSynchronizeStream(streams[i]));
        OK(aclrtDestroyStream(streams[i]));
    }
    OK(aclrtFreeHost(from));
    OK(aclrtFree(device));
}

// A function of the program's finds what it would find in main: room on the stack, and its own handlers for
// its own faults.
static sigjmp_buf after_fault;
static volatile int faulted;

static void on_fault(int signal)
{
    siglongjmp(after_fault, signal);
}

// Three frames of 1 MiB: more stack than a small thread has, in steps that valgrind can follow.
static int __attribute__((noinline)) deep(int levels)
{
    volatile char room[1 << 20];
    memset((void *)room, 1, sizeof room);
    return (levels > 1 ? deep(levels - 1) : 0) + room[sizeof room - 1];
}

static void uses_stack_and_faults(void *unused)
{
    (void)unused;
    if (sigsetjmp(after_fault, 1) == 0) {
        raise(SIGSEGV);
    } else {
        faulted = deep(3);
    }
}

static void they_have_stack_and_signals(void)
{
    struct sigaction mine, before;
    memset(&mine, 0, sizeof mine);
    mine.sa_handler = on_fault;
    THAT(sigaction(SIGSEGV, &mine, &before) == 0);
    OK(aclrtLaunchHostFunc(NULL, uses_stack_and_faults, NULL));
    OK(aclrtSynchronizeStream(NULL));
    THAT(faulted == 3);
    THAT(sigaction(SIGSEGV, &before, NULL) == 0);
}

int main(void)
{
    begin();
    they_run_in_order();
    they_have_stack_and_signals();
    they_stand_between_copies();
    a_blocked_one_blocks_its_stream_only();
    CHECK(aclrtLaunchHostFunc(NULL, NULL, NULL), ACL_ERROR_INVALID_PARAM);
    return finish("aclrtLaunchHostFunc");
}
