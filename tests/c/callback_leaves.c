// Callbacks that do not return to aclrtProcessReport: by longjmp, by the end of their thread, by its
// cancellation. The stream that a blocking callback holds goes on, but not before: a callback that is still
// running may call what it likes.
#include "kit.h"

#include <setjmp.h>

static aclrtContext context;
static aclrtStream stream;
static jmp_buf outside;
static int ran, is_in;

static void count(void *unused)
{
    (void)unused;
    ran++;
}

static void jump(void *unused)
{
    (void)unused;
    longjmp(outside, 1);
}

static void is_held(void)
{
    aclrtStreamStatus status = ACL_STREAM_STATUS_COMPLETE;
    OK(aclrtStreamQuery(stream, &status));
    THAT(status == ACL_STREAM_STATUS_NOT_READY);
}

static void is_free(void)
{
    OK(aclrtSynchronizeStream(stream));
}

// Calls of all sorts, from a callback that holds its stream.
static void call_much(void *depth)
{
    unsigned char room[3000];
    void *memory = NULL;
    memset(room, 1, sizeof(room));
    OK(aclrtMalloc(&memory, sizeof(room), ACL_MEM_MALLOC_HUGE_FIRST));
    OK(aclrtMemcpy(memory, sizeof(room), room, sizeof(room), H2D));
    OK(aclrtFree(memory));
    CHECK(aclrtProcessReport(1), ACL_ERROR_RT_REPORT_TIMEOUT);
    is_held();
    if ((intptr_t)depth > 0) {
        call_much((void *)((intptr_t)depth - 1));
    }
    ran++;
}

// A callback that runs another one, which jumps back into it.
static void run_another(void *other)
{
    aclrtStream second = (aclrtStream)other;
    OK(aclrtSubscribeReport((uint64_t)pthread_self(), second));
    OK(aclrtLaunchCallback(jump, NULL, ACL_CALLBACK_BLOCK, second));
    if (setjmp(outside) == 0) {
        (void)aclrtProcessReport(-1);
        THAT(!"it jumps");
    }
    OK(aclrtSynchronizeStream(second));
    is_held();
    OK(aclrtUnSubscribeReport((uint64_t)pthread_self(), second));
    ran++;
}

static void launch(void (*callback)(void *), void *argument)
{
    OK(aclrtLaunchCallback(callback, argument, ACL_CALLBACK_BLOCK, stream));
}

static void returning(void)
{
    ran = 0;
    launch(call_much, (void *)(intptr_t)5);
    OK(aclrtProcessReport(-1));
    CHECK(ran, 6);
    is_free();
}

static void jumping(void)
{
    volatile int round;
    ran = 0;
    for (round = 0; round < 3; round++) {
        launch(jump, NULL);
        launch(count, NULL);
        if (setjmp(outside) == 0) {
            (void)aclrtProcessReport(-1);
            THAT(!"it jumps");
        }
        OK(aclrtProcessReport(-1)); // the one behind it is due
        CHECK(ran, round + 1);
        is_free();
    }
    launch(jump, NULL);
    if (setjmp(outside) == 0) {
        (void)aclrtProcessReport(-1);
    }
    is_free();
}

static void nested(void)
{
    aclrtStream second = NULL;
    ran = 0;
    OK(aclrtCreateStream(&second));
    launch(run_another, second);
    OK(aclrtProcessReport(-1));
    CHECK(ran, 1);
    is_free();
    OK(aclrtDestroyStream(second));
}

static void leave_thread(void *result) { pthread_exit(result); }

static void sleep_for_ever(void *unused)
{
    (void)unused;
    watch_set(&is_in);
    for (;;) {
        pause();
    }
}

static void *serve(void *unused)
{
    OK(aclrtSetCurrentContext(context));
    OK(aclrtSubscribeReport((uint64_t)pthread_self(), stream));
    watch_set(&is_in);
    (void)aclrtProcessReport(-1);
    THAT(!"the callback ends the thread");
    return unused;
}

// A thread that serves the stream, and the callback with which it ends.
static void ending(void (*callback)(void *), void *argument, int cancels, void *result)
{
    pthread_t thread;
    void *ended = NULL;
    is_in = 0;
    THAT(pthread_create(&thread, NULL, serve, NULL) == 0);
    while (!watch_get(&is_in)) {
        sched_yield();
    }
    __atomic_store_n(&is_in, 0, __ATOMIC_SEQ_CST);
    launch(callback, argument);
    while (cancels && !watch_get(&is_in)) {
        sched_yield();
    }
    if (cancels) {
        is_held();
        THAT(pthread_cancel(thread) == 0);
    }
    THAT(pthread_join(thread, &ended) == 0);
    THAT(ended == result);
    is_free();
    OK(aclrtUnSubscribeReport((uint64_t)thread, stream));
}

int main(void)
{
    begin();
    OK(aclrtGetCurrentContext(&context));
    OK(aclrtCreateStream(&stream));
    OK(aclrtSubscribeReport((uint64_t)pthread_self(), stream));
    returning();
    jumping();
    nested();
    OK(aclrtUnSubscribeReport((uint64_t)pthread_self(), stream));
    ending(leave_thread, &stream, 0, &stream);
    ending(sleep_for_ever, NULL, 1, PTHREAD_CANCELED);
    OK(aclrtDestroyStream(stream));
    return finish("callbacks that do not return");
}
