// Streams that are aborted, destroyed by force or stopped by a failure, and waits that give up.
#include "kit.h"

enum { LEN = 1 << 16 };

static struct gate gate = GATE;

struct waiter {
    aclrtContext context;
    aclrtStream stream;
    int calling;
    aclError code;
};

static void *wait_for(void *arg)
{
    struct waiter *w = (struct waiter *)arg;
    OK(aclrtSetCurrentContext(w->context));
    watch_set(&w->calling);
    w->code = aclrtSynchronizeStream(w->stream);
    return NULL;
}

static void an_abort_drops_and_tells(void)
{
    unsigned char *from = pinned(1, LEN), *to = device_memory(2, LEN);
    struct waiter w = {NULL, NULL, 0, ACL_SUCCESS};
    pthread_t thread;
    OK(aclrtCreateStream(&w.stream));
    OK(aclrtGetCurrentContext(&w.context));
    gate_shut(&gate, w.stream);
    OK(aclrtMemcpyAsync(to, LEN, from, LEN, H2D, w.stream));
    THAT(pthread_create(&thread, NULL, wait_for, &w) == 0);
    while (!watch_get(&w.calling)) {
        sched_yield();
    }
    // Whether it waits already or comes a moment later, it is told.
    OK(aclrtStreamAbort(w.stream));
    THAT(pthread_join(thread, NULL) == 0);
    CHECK(w.code, ACL_ERROR_RT_STREAM_ABORT);
    gate_open(&gate);
    OK(aclrtSynchronizeStream(w.stream));
    HOLDS(to, 2, LEN);
    OK(aclrtMemcpyAsync(to, LEN, from, LEN, H2D, w.stream));
    OK(aclrtSynchronizeStream(w.stream));
    HOLDS(to, 1, LEN);
    OK(aclrtDestroyStream(w.stream));
    OK(aclrtFreeHost(from));
    OK(aclrtFree(to));
}

static void a_forced_destroy_does_not_wait(void)
{
    unsigned char *from = pinned(3, LEN), *to = device_memory(4, LEN);
    aclrtStream stream = NULL;
    OK(aclrtCreateStream(&stream));
    gate_shut(&gate, stream);
    OK(aclrtMemcpyAsync(to, LEN, from, LEN, H2D, stream));
    OK(aclrtDestroyStreamForce(stream));
    CHECK(aclrtSynchronizeStream(stream), ACL_ERROR_RT_INVALID_HANDLE);
    gate_open(&gate);
    HOLDS(to, 4, LEN);
    CHECK(aclrtDestroyStreamForce(NULL), ACL_ERROR_RT_PARAM_INVALID);
    OK(aclrtFreeHost(from));
    OK(aclrtFree(to));
}

static void waits_give_up(void)
{
    aclrtStream stream = NULL;
    aclrtEvent event = NULL;
    OK(aclrtCreateStream(&stream));
    OK(aclrtCreateEvent(&event));
    gate_shut(&gate, stream);
    OK(aclrtRecordEvent(event, stream));
    CHECK(aclrtSynchronizeDeviceWithTimeout(1), ACL_ERROR_RT_STREAM_SYNC_TIMEOUT);
    CHECK(aclrtSynchronizeEventWithTimeout(event, 1), ACL_ERROR_RT_EVENT_SYNC_TIMEOUT);
    gate_open(&gate);
    OK(aclrtSynchronizeEventWithTimeout(event, -1));
    OK(aclrtSynchronizeDeviceWithTimeout(-1));
    OK(aclrtDestroyEvent(event));
    OK(aclrtDestroyStream(stream));
}

static void a_failure_stops_the_context(void)
{
    aclrtContext mine = NULL, context = NULL;
    aclrtStream failing = NULL, other = NULL;
    int32_t one = -1, two = -1;
    void *desc = NULL;
    size_t size = 0;
    OK(aclrtGetCurrentContext(&mine));
    OK(aclrtCreateContext(&context, 0));
    OK(aclrtCreateStream(&failing));
    OK(aclrtCreateStream(&other));
    OK(aclrtStreamGetId(failing, &one));
    OK(aclrtStreamGetId(other, &two));
    THAT(one != two);
    OK(aclrtSetStreamFailureMode(failing, ACL_STOP_ON_FAILURE));
    CHECK(aclrtSetStreamFailureMode(failing, ACL_CONTINUE_ON_FAILURE), ACL_ERROR_RT_PARAM_INVALID);
    CHECK(aclrtSetStreamFailureMode(other, 2), ACL_ERROR_RT_PARAM_INVALID);
    OK(aclrtGetMemcpyDescSize(INNER, &size));
    OK(aclrtMalloc(&desc, size, ACL_MEM_MALLOC_NORMAL_ONLY));
    OK(aclrtMemset(desc, size, 0, size));
    OK(aclrtMemcpyAsyncWithDesc(desc, INNER, failing));
    CHECK(aclrtSynchronizeStream(failing), ACL_ERROR_RT_PARAM_INVALID);
    CHECK(aclrtSynchronizeStream(other), ACL_ERROR_RT_PARAM_INVALID);
    CHECK(aclrtMemsetAsync(desc, size, 0, size, other), ACL_ERROR_RT_PARAM_INVALID);
    THAT(strstr(aclGetRecentErrMsg(), "take no more work") != NULL);
    OK(aclrtFree(desc));
    OK(aclrtDestroyContext(context));
    OK(aclrtSetCurrentContext(mine));
    OK(aclrtSynchronizeStream(NULL));
}

int main(void)
{
    begin();
    an_abort_drops_and_tells();
    a_forced_destroy_does_not_wait();
    waits_give_up();
    a_failure_stops_the_context();
    OK(aclrtSetDevice(0));
    OK(aclrtResetDeviceForce(0));
    CHECK(aclrtResetDevice(0), ACL_ERROR_RT_CONTEXT_NULL);
    OK(aclFinalize());
    printf("ok: streams that stop\n");
    return 0;
}
