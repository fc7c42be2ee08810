// Handles that were destroyed, never existed, or are of another sort answer 107017 everywhere and never
// crash; a destroyed one never comes back as somebody else's.
#include "kit.h"

enum { LEN = 256, SORTS = 6 };

static unsigned char *device, *host;
static aclrtEvent event;

#define DEAD(call) CHECK(call, ACL_ERROR_RT_INVALID_HANDLE)

static void a_bad_stream(aclrtStream bad)
{
    aclrtStreamStatus status = ACL_STREAM_STATUS_RESERVED;
    aclrtMemcpyBatchAttr attr;
    void *dsts[1], *srcs[1];
    size_t lens[1] = {LEN}, starts[1] = {0}, fail = 0;
    dsts[0] = device, srcs[0] = host;
    memset(&attr, 0, sizeof attr);
    attr.dstLoc.type = ACL_MEM_LOCATION_TYPE_DEVICE;
    DEAD(aclrtDestroyStream(bad));
    DEAD(aclrtSynchronizeStream(bad));
    DEAD(aclrtSynchronizeStreamWithTimeout(bad, 10));
    DEAD(aclrtStreamQuery(bad, &status));
    DEAD(aclrtStreamWaitEvent(bad, event));
    DEAD(aclrtRecordEvent(event, bad));
    DEAD(aclrtLaunchHostFunc(bad, gate_hold, NULL));
    DEAD(aclrtMemcpyAsync(device, LEN, host, LEN, H2D, bad));
    DEAD(aclrtMemcpyAsyncWithCondition(device, LEN, host, LEN, H2D, bad));
    DEAD(aclrtMemcpy2dAsync(device, 16, host, 16, 16, 16, H2D, bad));
    DEAD(aclrtMemcpyBatchAsync(dsts, lens, srcs, lens, 1, &attr, starts, 1, &fail, bad));
    DEAD(aclrtMemcpyBatchAsyncV2(dsts, lens, srcs, lens, 1, &attr, starts, 1, bad));
    DEAD(aclrtMemcpyAsyncWithDesc(device, INNER, bad));
    DEAD(aclrtMemcpyAsyncWithOffset((void **)device, LEN, 0, (const void **)device, LEN, 0, INNER, bad));
    DEAD(aclrtMemsetAsync(device, LEN, 0, LEN, bad));
    DEAD(aclrtMemsetD32Async(device, LEN, 0, LEN / 4, bad));
    DEAD(aclrtReduceAsync(device, device, LEN, ACL_RT_MEMCPY_SDMA_AUTOMATIC_SUM, ACL_INT32, bad, NULL));
}

static void a_bad_event(aclrtEvent bad)
{
    aclrtEventRecordedStatus status = ACL_EVENT_RECORDED_STATUS_NOT_READY;
    float ms = 0;
    DEAD(aclrtDestroyEvent(bad));
    DEAD(aclrtRecordEvent(bad, NULL));
    DEAD(aclrtStreamWaitEvent(NULL, bad));
    DEAD(aclrtQueryEventStatus(bad, &status));
    DEAD(aclrtSynchronizeEvent(bad));
    DEAD(aclrtEventElapsedTime(&ms, bad, event));
    DEAD(aclrtEventElapsedTime(&ms, event, bad));
}

static void a_bad_context(aclrtContext bad)
{
    DEAD(aclrtSetCurrentContext(bad));
    DEAD(aclrtDestroyContext(bad));
}

// A destroyed one stays dead, however many are made after it.
static void the_dead_do_not_come_back(void)
{
    aclrtStream dead = NULL, stream = NULL;
    aclrtEvent gone = NULL, next = NULL;
    int i;
    OK(aclrtCreateStream(&dead));
    OK(aclrtDestroyStream(dead));
    OK(aclrtCreateEvent(&gone));
    OK(aclrtDestroyEvent(gone));
    for (i = 0; i < 3000; i++) {
        OK(aclrtCreateStream(&stream));
        THAT(stream != dead);
        OK(aclrtDestroyStream(stream));
        OK(aclrtCreateEvent(&next));
        THAT(next != gone);
        OK(aclrtDestroyEvent(next));
    }
    OK(aclrtCreateStream(&stream));
    OK(aclrtCreateEvent(&next));
    a_bad_stream(dead);
    a_bad_event(gone);
    OK(aclrtSynchronizeStream(stream));
    OK(aclrtDestroyStream(stream));
    OK(aclrtDestroyEvent(next));
}

int main(void)
{
    aclrtStream stream = NULL, taken = NULL;
    aclrtContext context = NULL, other = NULL;
    int on_stack = 0, i;
    begin();
    device = device_memory(1, LEN), host = pinned(2, LEN);
    OK(aclrtCreateEvent(&event));
    OK(aclrtRecordEvent(event, NULL));
    OK(aclrtSynchronizeEvent(event));
    OK(aclrtCreateStream(&stream));
    OK(aclrtGetCurrentContext(&context));

    {
        // Addresses of all sorts, and numbers that look like nothing.
        void *garbage[SORTS];
        garbage[0] = LOW_GARBAGE, garbage[1] = HIGH_GARBAGE, garbage[2] = &on_stack;
        garbage[3] = device, garbage[4] = host, garbage[5] = (void *)~(uintptr_t)0;
        for (i = 0; i < SORTS; i++) {
            a_bad_stream(garbage[i]);
            a_bad_event(garbage[i]);
            a_bad_context(garbage[i]);
        }
    }
    // One sort is not another.
    a_bad_stream(event);
    a_bad_stream(context);
    a_bad_event(stream);
    a_bad_event(context);
    a_bad_context(stream);
    a_bad_context(event);

    the_dead_do_not_come_back();

    // The streams of a context end with it.
    OK(aclrtCreateContext(&other, 0));
    OK(aclrtCreateStream(&taken));
    OK(aclrtSetCurrentContext(context));
    OK(aclrtDestroyContext(other));
    a_bad_stream(taken);
    a_bad_context(other);

    HOLDS(device, 1, LEN);
    OK(aclrtSynchronizeStream(stream));
    OK(aclrtDestroyStream(stream));
    OK(aclrtDestroyEvent(event));
    OK(aclrtFree(device));
    OK(aclrtFreeHost(host));
    return finish("stale handles");
}
