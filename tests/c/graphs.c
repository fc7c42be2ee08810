// proves: G1 G4 G12 G13 G17 G19 G20 G27 G28 G30 G32
// Models: streams that are captured, executions that read the bytes of their time, and a call that breaks a
// capture.
#include "kit.h"

enum { LEN = 4096 };

static struct gate gate = GATE;
static aclrtStream one, two;

static aclmdlRICaptureStatus status_of(aclrtStream stream)
{
    aclmdlRICaptureStatus status = (aclmdlRICaptureStatus)77;
    OK(aclmdlRICaptureGetInfo(stream, &status, NULL));
    return status;
}

// The tasks of two streams, joined by events: up, inside the device on the second stream, and back.
static aclmdlRI capture(unsigned char *from, unsigned char *device[2], unsigned char *to)
{
    aclrtEvent fork = NULL, join = NULL;
    aclmdlRI told = NULL, model = NULL;
    OK(aclrtCreateEvent(&fork));
    OK(aclrtCreateEvent(&join));
    OK(aclmdlRICaptureBegin(one, ACL_MODEL_RI_CAPTURE_MODE_GLOBAL));
    OK(aclrtMemcpyAsync(device[0], LEN, from, LEN, H2D, one));
    OK(aclrtRecordEvent(fork, one));
    THAT(status_of(two) == ACL_MODEL_RI_CAPTURE_STATUS_NONE);
    OK(aclrtStreamWaitEvent(two, fork));
    THAT(status_of(two) == ACL_MODEL_RI_CAPTURE_STATUS_ACTIVE);
    OK(aclrtMemcpyAsync(device[1], LEN, device[0], LEN, D2D, two));
    OK(aclrtRecordEvent(join, two));
    OK(aclrtStreamWaitEvent(one, join));
    OK(aclrtMemcpyAsync(to, LEN, device[1], LEN, D2H, one));
    OK(aclmdlRICaptureGetInfo(one, NULL, &told));
    OK(aclmdlRICaptureEnd(one, &model));
    THAT(model != NULL && model == told);
    THAT(status_of(one) == ACL_MODEL_RI_CAPTURE_STATUS_NONE);
    THAT(status_of(two) == ACL_MODEL_RI_CAPTURE_STATUS_NONE);
    OK(aclrtDestroyEvent(fork));
    OK(aclrtDestroyEvent(join));
    return model;
}

// Nothing runs while it is captured; each execution copies what is there by then.
static void executions_read_the_bytes_of_their_time(void)
{
    unsigned char *from = pinned(1, LEN), *to = pinned(2, LEN), *old = pageable(2, LEN);
    unsigned char *device[2] = {device_memory(3, LEN), device_memory(4, LEN)};
    aclmdlRI model = capture(from, device, to);
    unsigned seed;
    OK(aclrtSynchronizeStream(one));
    OK(aclrtSynchronizeStream(two));
    SAME(to, old, LEN);
    HOLDS(device[0], 3, LEN);
    HOLDS(device[1], 4, LEN);
    for (seed = 10; seed < 12; seed++) {
        pattern(from, seed, LEN);
        OK(aclmdlRIExecuteAsync(model, seed == 10 ? one : two));
        OK(aclrtSynchronizeStream(seed == 10 ? one : two));
        SAME(to, from, LEN);
        HOLDS(device[1], seed, LEN);
    }
    // Behind what its stream has; not destroyed meanwhile.
    gate_shut(&gate, one);
    OK(aclmdlRIExecuteAsync(model, one));
    CHECK(aclmdlRIDestroy(model), ACL_ERROR_RT_MODEL_RUNNING);
    pattern(from, 12, LEN);
    gate_open(&gate);
    OK(aclrtSynchronizeStream(one));
    SAME(to, from, LEN);
    // And without a stream.
    pattern(from, 13, LEN);
    OK(aclmdlRIExecute(model, -1));
    SAME(to, from, LEN);
    OK(aclmdlRIDestroy(model));
    REFUSED(aclmdlRIExecuteAsync(model, one));
    OK(aclrtFree(device[0]));
    OK(aclrtFree(device[1]));
    OK(aclrtFreeHost(from));
    OK(aclrtFreeHost(to));
    free(old);
}

// A bad argument captures nothing and breaks nothing; a wait for a captured stream breaks the capture.
static void refused_calls(void)
{
    unsigned char *from = pinned(1, LEN), *device = device_memory(2, LEN);
    aclmdlRI model = NULL;
    OK(aclmdlRICaptureBegin(one, ACL_MODEL_RI_CAPTURE_MODE_THREAD_LOCAL));
    REFUSED(aclrtMemcpyAsync(device, LEN - 1, from, LEN, H2D, one));
    REFUSED(aclmdlRICaptureBegin(one, ACL_MODEL_RI_CAPTURE_MODE_GLOBAL));
    OK(aclrtMemcpyAsync(device, LEN, from, LEN, H2D, one));
    OK(aclmdlRICaptureEnd(one, &model));
    OK(aclmdlRIExecute(model, -1));
    HOLDS(device, 1, LEN);
    OK(aclmdlRIDestroy(model));

    OK(aclmdlRICaptureBegin(one, ACL_MODEL_RI_CAPTURE_MODE_THREAD_LOCAL));
    CHECK(aclrtSynchronizeStream(one), ACL_ERROR_RT_STREAM_CAPTURED);
    THAT(status_of(one) == ACL_MODEL_RI_CAPTURE_STATUS_INVALIDATED);
    CHECK(aclrtMemcpyAsync(device, LEN, from, LEN, H2D, one), ACL_ERROR_RT_STREAM_CAPTURE_INVALIDATED);
    model = (aclmdlRI)from;
    CHECK(aclmdlRICaptureEnd(one, &model), ACL_ERROR_RT_STREAM_CAPTURE_INVALIDATED);
    THAT(model == NULL);
    // The stream is as before.
    pattern(from, 5, LEN);
    OK(aclrtMemcpyAsync(device, LEN, from, LEN, H2D, one));
    OK(aclrtSynchronizeStream(one));
    HOLDS(device, 5, LEN);
    OK(aclrtFree(device));
    OK(aclrtFreeHost(from));
}

int main(void)
{
    begin();
    OK(aclrtCreateStream(&one));
    OK(aclrtCreateStream(&two));
    executions_read_the_bytes_of_their_time();
    refused_calls();
    OK(aclrtDestroyStream(one));
    OK(aclrtDestroyStream(two));
    return finish("graphs");
}
