// proves: X1
// Events: what they capture, who waits for them, what they say before, during and after, and which are
// refused.
#include "kit.h"

enum { LEN = 4096 };

static struct gate gate = GATE;
static aclrtStream one, two;

static aclrtEventRecordedStatus status_of(aclrtEvent event)
{
    aclrtEventRecordedStatus status = (aclrtEventRecordedStatus)77;
    OK(aclrtQueryEventStatus(event, &status));
    return status;
}

// A chain over two streams: the second copies what the first has written.
static void they_order_streams(void)
{
    aclrtEvent event = NULL;
    unsigned char *from = pinned(1, LEN), *to = pinned(2, LEN), *old = pageable(2, LEN),
                  *device = device_memory(3, LEN);
    OK(aclrtCreateEvent(&event));
    gate_shut(&gate, one);
    OK(aclrtMemcpyAsync(device, LEN, from, LEN, H2D, one));
    OK(aclrtRecordEvent(event, one));
    OK(aclrtStreamWaitEvent(two, event));
    OK(aclrtMemcpyAsync(to, LEN, device, LEN, D2H, two));
    THAT(status_of(event) == ACL_EVENT_RECORDED_STATUS_NOT_READY);
    CHECK(aclrtSynchronizeStreamWithTimeout(two, 20), ACL_ERROR_RT_STREAM_SYNC_TIMEOUT);
    SAME(to, old, LEN);
    gate_open(&gate);
    OK(aclrtSynchronizeStream(two));
    SAME(to, from, LEN);
    THAT(status_of(event) == ACL_EVENT_RECORDED_STATUS_COMPLETE);
    OK(aclrtDestroyEvent(event));
    OK(aclrtFreeHost(from));
    OK(aclrtFreeHost(to));
    free(old);
    OK(aclrtFree(device));
}

// An event stands for what was submitted before it, not for what came after.
static void they_capture_what_came_before(void)
{
    aclrtEvent event = NULL;
    unsigned char *from = pinned(5, LEN), *device = device_memory(6, LEN);
    OK(aclrtCreateEvent(&event));
    OK(aclrtMemcpyAsync(device, LEN, from, LEN, H2D, one));
    OK(aclrtRecordEvent(event, one));
    gate_shut(&gate, one);
    OK(aclrtSynchronizeEvent(event));
    HOLDS(device, 5, LEN);
    THAT(status_of(event) == ACL_EVENT_RECORDED_STATUS_COMPLETE);

    // Recorded again, it stands for more; who waited for the first record goes on.
    OK(aclrtStreamWaitEvent(two, event));
    OK(aclrtRecordEvent(event, one));
    THAT(status_of(event) == ACL_EVENT_RECORDED_STATUS_NOT_READY);
    OK(aclrtSynchronizeStream(two));
    gate_open(&gate);
    OK(aclrtSynchronizeEvent(event));
    WAITS(one, aclrtRecordEvent(event, one) || aclrtSynchronizeEvent(event));
    OK(aclrtSynchronizeStream(one));

    // Destroying one that is not there yet does not wait, and who waits for it is not forgotten.
    gate_shut(&gate, one);
    OK(aclrtRecordEvent(event, one));
    OK(aclrtStreamWaitEvent(two, event));
    OK(aclrtDestroyEvent(event));
    CHECK(aclrtSynchronizeStreamWithTimeout(two, 20), ACL_ERROR_RT_STREAM_SYNC_TIMEOUT);
    gate_open(&gate);
    OK(aclrtSynchronizeStream(two));
    OK(aclrtSynchronizeStream(one));
    OK(aclrtFreeHost(from));
    OK(aclrtFree(device));
}

static void one_never_recorded(void)
{
    aclrtEvent plain = NULL, flagged = NULL, extended = NULL;
    OK(aclrtCreateEvent(&plain));
    OK(aclrtCreateEventWithFlag(&flagged, ACL_EVENT_SYNC));
    OK(aclrtCreateEventExWithFlag(&extended, ACL_EVENT_SYNC));
    THAT(status_of(plain) == ACL_EVENT_RECORDED_STATUS_NOT_READY);
    THAT(status_of(flagged) == ACL_EVENT_RECORDED_STATUS_NOT_READY);
    THAT(status_of(extended) == ACL_EVENT_RECORDED_STATUS_COMPLETE);
    // Nothing to wait for.
    OK(aclrtSynchronizeEvent(plain));
    OK(aclrtStreamWaitEvent(one, plain));
    OK(aclrtStreamWaitEvent(one, flagged));
    OK(aclrtStreamWaitEvent(one, extended));
    OK(aclrtSynchronizeStream(one));
    OK(aclrtDestroyEvent(plain));
    OK(aclrtDestroyEvent(flagged));
    OK(aclrtDestroyEvent(extended));
}

static void time_between_two(void)
{
    aclrtEvent start = NULL, end = NULL, untimed = NULL, never = NULL;
    unsigned char *from = pinned(10, LEN), *device = device_memory(11, LEN);
    float ms = -1;
    OK(aclrtCreateEvent(&start));
    OK(aclrtCreateEventWithFlag(&end, ACL_EVENT_TIME_LINE));
    OK(aclrtCreateEventWithFlag(&untimed, ACL_EVENT_SYNC));
    OK(aclrtCreateEvent(&never));
    OK(aclrtRecordEvent(start, one));
    OK(aclrtMemcpyAsync(device, LEN, from, LEN, H2D, one));
    gate_shut(&gate, one);
    CHECK(aclrtSynchronizeStreamWithTimeout(one, 2), ACL_ERROR_RT_STREAM_SYNC_TIMEOUT);
    gate_open(&gate);
    OK(aclrtRecordEvent(end, one));
    OK(aclrtRecordEvent(untimed, one));
    OK(aclrtSynchronizeStream(one));
    OK(aclrtEventElapsedTime(&ms, start, end));
    // The gate was shut for at least the two milliseconds of the wait above, on any machine.
    THAT(ms >= 1.9f);
    CHECK(aclrtEventElapsedTime(&ms, end, start), ACL_ERROR_RT_EVENT_TIMESTAMP_REVERSAL);
    CHECK(aclrtEventElapsedTime(&ms, start, untimed), ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID);
    CHECK(aclrtEventElapsedTime(&ms, never, end), ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID);
    CHECK(aclrtEventElapsedTime(NULL, start, end), ACL_ERROR_INVALID_PARAM);
    OK(aclrtDestroyEvent(start));
    OK(aclrtDestroyEvent(end));
    OK(aclrtDestroyEvent(untimed));
    OK(aclrtDestroyEvent(never));
    OK(aclrtFreeHost(from));
    OK(aclrtFree(device));
}

static void they_are_reset(void)
{
    aclrtEvent event = NULL;
    aclrtEventStatus status = ACL_EVENT_STATUS_RESERVED;
    aclrtEventWaitStatus waits = ACL_EVENT_WAIT_STATUS_RESERVED;
    uint64_t before = 0, after = 0;
    OK(aclrtCreateEventWithFlag(&event, ACL_EVENT_SYNC | ACL_EVENT_TIME_LINE));
    OK(aclrtRecordEvent(event, one));
    OK(aclrtStreamWaitEvent(two, event));
    OK(aclrtResetEvent(event, two));
    OK(aclrtSynchronizeStream(two));
    OK(aclrtQueryEvent(event, &status));
    OK(aclrtQueryEventWaitStatus(event, &waits));
    THAT(status == ACL_EVENT_STATUS_NOT_READY && waits == ACL_EVENT_WAIT_STATUS_COMPLETE);
    CHECK(aclrtEventGetTimestamp(event, &before), ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID);
    // A wait from now on is for the next record.
    OK(aclrtStreamWaitEvent(two, event));
    OK(aclrtQueryEventWaitStatus(event, &waits));
    THAT(waits == ACL_EVENT_WAIT_STATUS_NOT_READY);
    OK(aclrtRecordEvent(event, one));
    OK(aclrtSynchronizeStream(two));
    OK(aclrtQueryEvent(event, &status));
    THAT(status == ACL_EVENT_STATUS_COMPLETE);
    OK(aclrtEventGetTimestamp(event, &before));
    OK(aclrtRecordEvent(event, two));
    OK(aclrtSynchronizeEvent(event));
    OK(aclrtEventGetTimestamp(event, &after));
    THAT(after >= before);
    OK(aclrtDestroyEvent(event));
}

static void bad_calls_are_refused(void)
{
    aclrtEvent event = NULL, untouched = NULL;
    aclrtEventRecordedStatus status = ACL_EVENT_RECORDED_STATUS_NOT_READY;
    CHECK(aclrtCreateEvent(NULL), ACL_ERROR_INVALID_PARAM);
    CHECK(aclrtCreateEventWithFlag(NULL, ACL_EVENT_SYNC), ACL_ERROR_INVALID_PARAM);
    CHECK(aclrtCreateEventExWithFlag(NULL, ACL_EVENT_SYNC), ACL_ERROR_INVALID_PARAM);
    CHECK(aclrtCreateEventWithFlag(&untouched, 0x80000000u), ACL_ERROR_RT_PARAM_INVALID);
    THAT(untouched == NULL);
    // Only an event made for it can be waited for by a stream.
    OK(aclrtCreateEventWithFlag(&event, ACL_EVENT_TIME_LINE));
    OK(aclrtRecordEvent(event, one));
    CHECK(aclrtStreamWaitEvent(two, event), ACL_ERROR_RT_PARAM_INVALID);
    OK(aclrtSynchronizeEvent(event));
    CHECK(aclrtQueryEventStatus(event, NULL), ACL_ERROR_INVALID_PARAM);
    CHECK(aclrtQueryEventStatus(NULL, &status), ACL_ERROR_INVALID_PARAM);
    CHECK(aclrtRecordEvent(NULL, one), ACL_ERROR_INVALID_PARAM);
    CHECK(aclrtStreamWaitEvent(one, NULL), ACL_ERROR_INVALID_PARAM);
    CHECK(aclrtSynchronizeEvent(NULL), ACL_ERROR_INVALID_PARAM);
    CHECK(aclrtDestroyEvent(NULL), ACL_ERROR_INVALID_PARAM);
    OK(aclrtDestroyEvent(event));
    CHECK(aclrtDestroyEvent(event), ACL_ERROR_RT_INVALID_HANDLE);
}

static void two_devices(void)
{
    aclrtContext mine = NULL;
    aclrtEvent event = NULL;
    aclrtStream far = NULL;
    if (device_count() < 2) {
        return;
    }
    OK(aclrtGetCurrentContext(&mine));
    OK(aclrtCreateEvent(&event));
    OK(aclrtRecordEvent(event, one));
    OK(aclrtSetDevice(1));
    OK(aclrtCreateStream(&far));
    CHECK(aclrtRecordEvent(event, far), ACL_ERROR_RT_STREAM_CONTEXT);
    CHECK(aclrtStreamWaitEvent(far, event), ACL_ERROR_RT_STREAM_CONTEXT);
    // The host may wait for an event of any device.
    OK(aclrtSynchronizeEvent(event));
    OK(aclrtDestroyStream(far));
    OK(aclrtSetCurrentContext(mine));
    OK(aclrtDestroyEvent(event));
    OK(aclrtResetDevice(1));
}

int main(void)
{
    begin();
    OK(aclrtCreateStream(&one));
    OK(aclrtCreateStream(&two));
    they_order_streams();
    they_capture_what_came_before();
    one_never_recorded();
    time_between_two();
    they_are_reset();
    bad_calls_are_refused();
    two_devices();
    OK(aclrtDestroyStream(one));
    OK(aclrtDestroyStream(two));
    return finish("events");
}
