// proves: N9 N10 N11
// Contexts: one per thread at a time, each with its own default stream; streams belong to the one that made
// them.
#include "kit.h"

enum { LEN = 4096 };

static struct gate gate = GATE;
static aclrtContext shared;

static void creating_makes_it_current(void)
{
    aclrtContext before = NULL, made = NULL, now = NULL;
    OK(aclrtGetCurrentContext(&before));
    OK(aclrtCreateContext(&made, 0));
    THAT(made != NULL && made != before);
    OK(aclrtGetCurrentContext(&now));
    THAT(now == made);
    OK(aclrtSetCurrentContext(before));
    OK(aclrtGetCurrentContext(&now));
    THAT(now == before);
    // Nothing is not a context, and leaves the old one.
    CHECK(aclrtSetCurrentContext(NULL), ACL_ERROR_INVALID_PARAM);
    CHECK(aclrtGetCurrentContext(NULL), ACL_ERROR_INVALID_PARAM);
    CHECK(aclrtCreateContext(NULL, 0), ACL_ERROR_INVALID_PARAM);
    OK(aclrtGetCurrentContext(&now));
    THAT(now == before);
    // Setting the device puts its default context in place.
    OK(aclrtSetCurrentContext(made));
    OK(aclrtSetDevice(0));
    OK(aclrtGetCurrentContext(&now));
    THAT(now == before);
    OK(aclrtResetDevice(0));
    OK(aclrtDestroyContext(made));
    CHECK(aclrtSetCurrentContext(made), ACL_ERROR_RT_INVALID_HANDLE);
    CHECK(aclrtDestroyContext(made), ACL_ERROR_RT_INVALID_HANDLE);
    CHECK(aclrtDestroyContext(NULL), ACL_ERROR_INVALID_PARAM);
    // The default context is not the caller's to destroy.
    REFUSED(aclrtDestroyContext(before));
    CHECK(aclrtCreateContext(&made, -1), ACL_ERROR_RT_INVALID_DEVICEID);
    CHECK(aclrtCreateContext(&made, (int32_t)device_count()), ACL_ERROR_RT_INVALID_DEVICEID);
}

static void each_has_its_default_stream(void)
{
    aclrtContext mine = NULL, other = NULL;
    unsigned char *from = pinned(1, LEN), *a = device_memory(2, LEN), *b = device_memory(3, LEN);
    OK(aclrtGetCurrentContext(&mine));
    gate_shut(&gate, NULL);
    OK(aclrtMemcpyAsync(a, LEN, from, LEN, H2D, NULL));
    OK(aclrtCreateContext(&other, 0));
    OK(aclrtMemcpyAsync(b, LEN, from, LEN, H2D, NULL));
    OK(aclrtSynchronizeStream(NULL));
    HOLDS(b, 1, LEN);
    HOLDS(a, 2, LEN);
    gate_open(&gate);
    OK(aclrtSetCurrentContext(mine));
    OK(aclrtSynchronizeStream(NULL));
    HOLDS(a, 1, LEN);
    OK(aclrtDestroyContext(other));
    OK(aclrtFreeHost(from));
    OK(aclrtFree(a));
    OK(aclrtFree(b));
}

static void streams_belong_to_theirs(void)
{
    aclrtContext mine = NULL, other = NULL;
    aclrtStream stream = NULL;
    unsigned char *host = pinned(5, LEN), *device = device_memory(6, LEN);
    OK(aclrtGetCurrentContext(&mine));
    OK(aclrtCreateContext(&other, 0));
    OK(aclrtCreateStream(&stream));
    OK(aclrtMemcpyAsync(device, LEN, host, LEN, H2D, stream));
    OK(aclrtSynchronizeStream(stream));
    HOLDS(device, 5, LEN);
    OK(aclrtSetCurrentContext(mine));
    CHECK(aclrtMemcpyAsync(host, LEN, device, LEN, D2H, stream), ACL_ERROR_RT_STREAM_CONTEXT);
    CHECK(aclrtMemcpy2dAsync(host, LEN, device, LEN, LEN, 1, D2H, stream), ACL_ERROR_RT_STREAM_CONTEXT);
    CHECK(aclrtMemsetAsync(device, LEN, 0, LEN, stream), ACL_ERROR_RT_STREAM_CONTEXT);
    CHECK(aclrtLaunchHostFunc(stream, gate_hold, &gate), ACL_ERROR_RT_STREAM_CONTEXT);
    CHECK(aclrtDestroyStream(stream), ACL_ERROR_RT_STREAM_CONTEXT);
    OK(aclrtSetCurrentContext(other));
    OK(aclrtDestroyStream(stream));
    OK(aclrtSetCurrentContext(mine));
    OK(aclrtDestroyContext(other));
    HOLDS(device, 5, LEN);
    OK(aclrtFreeHost(host));
    OK(aclrtFree(device));
}

static void *a_new_thread(void *arg)
{
    aclrtContext context = NULL;
    aclrtStream stream = NULL;
    aclrtEvent event = NULL;
    void *memory = NULL;
    int32_t device = -1;
    (void)arg;
    CHECK(aclrtGetCurrentContext(&context), ACL_ERROR_RT_CONTEXT_NULL);
    CHECK(aclrtGetDevice(&device), ACL_ERROR_RT_CONTEXT_NULL);
    CHECK(aclrtCreateStream(&stream), ACL_ERROR_RT_CONTEXT_NULL);
    CHECK(aclrtCreateEvent(&event), ACL_ERROR_RT_CONTEXT_NULL);
    CHECK(aclrtMalloc(&memory, 64, ACL_MEM_MALLOC_HUGE_FIRST), ACL_ERROR_RT_CONTEXT_NULL);
    CHECK(aclrtMallocHost(&memory, 64), ACL_ERROR_RT_CONTEXT_NULL);
    CHECK(aclrtSynchronizeStream(NULL), ACL_ERROR_RT_CONTEXT_NULL);
    CHECK(aclrtSynchronizeDevice(), ACL_ERROR_RT_CONTEXT_NULL);
    THAT(stream == NULL && event == NULL && memory == NULL);
    // It may take part in the context of another thread, or in the device's own.
    OK(aclrtSetCurrentContext(shared));
    OK(aclrtGetDevice(&device));
    CHECK(device, 0);
    OK(aclrtSynchronizeStream(NULL));
    return NULL;
}

static void another_device(void)
{
    aclrtContext mine = NULL, far = NULL;
    int32_t device = -1;
    if (device_count() < 2) {
        return;
    }
    OK(aclrtGetCurrentContext(&mine));
    OK(aclrtCreateContext(&far, 1));
    OK(aclrtGetDevice(&device));
    CHECK(device, 1);
    OK(aclrtSetCurrentContext(mine));
    OK(aclrtGetDevice(&device));
    CHECK(device, 0);
    OK(aclrtSetCurrentContext(far));
    OK(aclrtGetDevice(&device));
    CHECK(device, 1);
    OK(aclrtSetCurrentContext(mine));
    OK(aclrtDestroyContext(far));
}

int main(void)
{
    begin();
    OK(aclrtGetCurrentContext(&shared));
    creating_makes_it_current();
    each_has_its_default_stream();
    streams_belong_to_theirs();
    in_thread(a_new_thread, NULL);
    another_device();
    return finish("contexts");
}
