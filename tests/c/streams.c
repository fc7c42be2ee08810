// proves: X1 X2
// Streams keep their own order and nobody else's, work without being waited for, tell of failed work at the
// next synchronise, and are waited for, queried and destroyed as documented.
#include "kit.h"

enum { LEN = 4096, MOST = 1984 };

static struct gate gate = GATE;

static void asking_and_waiting(void)
{
    aclrtStream stream = NULL;
    aclrtStreamStatus status = ACL_STREAM_STATUS_RESERVED;
    unsigned char *from = pinned(1, LEN), *device = device_memory(2, LEN);
    OK(aclrtCreateStream(&stream));
    THAT(stream != NULL);
    OK(aclrtStreamQuery(stream, &status));
    THAT(status == ACL_STREAM_STATUS_COMPLETE);
    OK(aclrtSynchronizeStream(stream));

    gate_shut(&gate, stream);
    OK(aclrtMemcpyAsync(device, LEN, from, LEN, H2D, stream));
    OK(aclrtStreamQuery(stream, &status));
    THAT(status == ACL_STREAM_STATUS_NOT_READY);
    // As long as the gate is shut every wait runs out.
    CHECK(aclrtSynchronizeStreamWithTimeout(stream, 1), ACL_ERROR_RT_STREAM_SYNC_TIMEOUT);
    CHECK(aclrtSynchronizeStreamWithTimeout(stream, 20), ACL_ERROR_RT_STREAM_SYNC_TIMEOUT);
    CHECK(aclrtSynchronizeStreamWithTimeout(stream, 0), ACL_ERROR_RT_PARAM_INVALID);
    CHECK(aclrtSynchronizeStreamWithTimeout(stream, -2), ACL_ERROR_RT_PARAM_INVALID);
    HOLDS(device, 2, LEN);
    gate_open(&gate);
    OK(aclrtSynchronizeStreamWithTimeout(stream, -1));
    OK(aclrtStreamQuery(stream, &status));
    THAT(status == ACL_STREAM_STATUS_COMPLETE);
    HOLDS(device, 1, LEN);
    OK(aclrtSynchronizeStreamWithTimeout(stream, 60000));
    WAITS(stream, aclrtSynchronizeStream(stream));
    WAITS(NULL, aclrtSynchronizeStream(NULL));
    CHECK(aclrtStreamQuery(stream, NULL), ACL_ERROR_INVALID_PARAM);
    OK(aclrtDestroyStream(stream));
    OK(aclrtFreeHost(from));
    OK(aclrtFree(device));
}

// A stream that stands still holds nobody up, and nobody has to wait for a stream to make it work.
static void streams_go_their_own_way(void)
{
    aclrtStream held = NULL, free_one = NULL;
    unsigned char *from = pinned(5, LEN), *a = device_memory(6, LEN), *b = device_memory(7, LEN);
    static struct gate arrived = GATE;
    OK(aclrtCreateStream(&held));
    OK(aclrtCreateStream(&free_one));
    gate_shut(&gate, held);
    OK(aclrtMemcpyAsync(a, LEN, from, LEN, H2D, held));
    OK(aclrtMemcpyAsync(b, LEN, from, LEN, H2D, free_one));
    // Returns when the stream has come this far, without asking the library.
    gate_shut(&arrived, free_one);
    HOLDS(b, 5, LEN);
    HOLDS(a, 6, LEN);
    gate_open(&arrived);
    OK(aclrtSynchronizeStream(free_one));
    HOLDS(a, 6, LEN);
    gate_open(&gate);
    OK(aclrtSynchronizeStream(held));
    HOLDS(a, 5, LEN);
    OK(aclrtDestroyStream(held));
    OK(aclrtDestroyStream(free_one));
    OK(aclrtFreeHost(from));
    OK(aclrtFree(a));
    OK(aclrtFree(b));
}

static void destroying_waits_for_the_work(void)
{
    aclrtStream stream = NULL;
    unsigned char *from = pinned(10, LEN), *device = device_memory(11, LEN);
    OK(aclrtCreateStream(&stream));
    WAITS(stream, aclrtDestroyStream(stream));
    OK(aclrtCreateStream(&stream));
    OK(aclrtMemcpyAsync(device, LEN, from, LEN, H2D, stream));
    OK(aclrtDestroyStream(stream));
    HOLDS(device, 10, LEN);
    CHECK(aclrtDestroyStream(stream), ACL_ERROR_RT_INVALID_HANDLE);
    CHECK(aclrtDestroyStream(NULL), ACL_ERROR_RT_PARAM_INVALID);
    OK(aclrtFreeHost(from));
    OK(aclrtFree(device));
}

static void failed_work_is_told_at_the_next_synchronise(void)
{
    aclrtStream stream = NULL, other = NULL;
    size_t size = 0;
    void *desc = NULL;
    unsigned char *from = pinned(15, LEN), *device = device_memory(16, LEN);
    OK(aclrtCreateStream(&stream));
    OK(aclrtCreateStream(&other));
    OK(aclrtGetMemcpyDescSize(INNER, &size));
    OK(aclrtMalloc(&desc, size, ACL_MEM_MALLOC_NORMAL_ONLY));
    OK(aclrtMemset(desc, size, 0, size));
    // Delivered well, fails when it runs; what follows still runs, and other streams do not hear of it.
    OK(aclrtMemcpyAsyncWithDesc(desc, INNER, stream));
    OK(aclrtMemcpyAsync(device, LEN, from, LEN, H2D, stream));
    OK(aclrtSynchronizeStream(other));
    CHECK(aclrtSynchronizeStream(stream), ACL_ERROR_RT_PARAM_INVALID);
    THAT(aclGetRecentErrMsg() != NULL);
    HOLDS(device, 15, LEN);
    OK(aclrtSynchronizeStream(stream));
    OK(aclrtFree(desc));
    OK(aclrtDestroyStream(stream));
    OK(aclrtDestroyStream(other));
    OK(aclrtFreeHost(from));
    OK(aclrtFree(device));
}

static void flags(void)
{
    aclrtStream stream = NULL;
    unsigned char *from = pinned(20, LEN), *device = device_memory(21, LEN);
    OK(aclrtCreateStreamWithConfig(&stream, 0, ACL_STREAM_FAST_LAUNCH | ACL_STREAM_FAST_SYNC));
    OK(aclrtMemcpyAsync(device, LEN, from, LEN, H2D, stream));
    OK(aclrtSynchronizeStream(stream));
    HOLDS(device, 20, LEN);
    OK(aclrtDestroyStream(stream));
    // Any priority is taken, and flags that mean nothing make a plain stream.
    OK(aclrtCreateStreamWithConfig(&stream, 99, 0x40000000));
    OK(aclrtMemsetAsync(device, LEN, 1, LEN, stream));
    OK(aclrtDestroyStream(stream));
    // A persistent stream is not waited for.
    OK(aclrtCreateStreamWithConfig(&stream, 0, ACL_STREAM_PERSISTENT));
    gate_shut(&gate, stream);
    OK(aclrtSynchronizeStream(stream));
    gate_open(&gate);
    OK(aclrtDestroyStream(stream));
    CHECK(aclrtCreateStreamWithConfig(NULL, 0, 0), ACL_ERROR_INVALID_PARAM);
    CHECK(aclrtCreateStream(NULL), ACL_ERROR_INVALID_PARAM);
    OK(aclrtFreeHost(from));
    OK(aclrtFree(device));
}

static void as_many_as_there_may_be(void)
{
    static aclrtStream streams[MOST];
    aclrtStream one_more = NULL;
    unsigned char *from = pinned(25, MOST), *device = device_memory(26, MOST);
    int i, made = 0;
    // The default stream is one of them.
    for (; made < MOST - 1; made++) {
        OK(aclrtCreateStream(&streams[made]));
        OK(aclrtMemcpyAsync(device + made, 1, from + made, 1, H2D, streams[made]));
    }
    CHECK(aclrtCreateStream(&one_more), ACL_ERROR_RT_RESOURCE_ALLOC_FAIL);
    for (i = 0; i < made; i++) {
        OK(aclrtSynchronizeStream(streams[i]));
    }
    HOLDS(device, 25, MOST - 1);
    OK(aclrtDestroyStream(streams[5]));
    OK(aclrtCreateStream(&streams[5]));
    for (i = 0; i < made; i++) {
        OK(aclrtDestroyStream(streams[i]));
    }
    OK(aclrtFreeHost(from));
    OK(aclrtFree(device));
}

int main(void)
{
    begin();
    asking_and_waiting();
    streams_go_their_own_way();
    destroying_waits_for_the_work();
    failed_work_is_told_at_the_next_synchronise();
    flags();
    as_many_as_there_may_be();
    return finish("streams");
}
