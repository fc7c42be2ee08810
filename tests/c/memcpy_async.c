// proves: N5 N6 N9 N10 N11 N12 X1 X10
// aclrtMemcpyAsync only delivers when the host memory is page-locked, waits when it is pageable, keeps the
// order of its stream, and checks kind, stream and memory before anything is submitted.
#include "kit.h"

enum { LEN = 5000 };

static struct gate gate = GATE;
static aclrtStream stream;

static void page_locked_memory_only_delivers(void)
{
    unsigned char *from = pinned(1, LEN), *to = pinned(2, LEN), *old = pageable(2, LEN);
    unsigned char *device = device_memory(3, LEN);

    gate_shut(&gate, stream);
    OK(aclrtMemcpyAsync(device, LEN, from, LEN, H2D, stream));
    OK(aclrtMemcpyAsync(to, LEN, device, LEN, D2H, stream));
    HOLDS(device, 3, LEN);
    SAME(to, old, LEN);
    gate_open(&gate);
    OK(aclrtSynchronizeStream(stream));
    HOLDS(device, 1, LEN);
    SAME(to, from, LEN);

    OK(aclrtFreeHost(from));
    OK(aclrtFreeHost(to));
    free(old);
    OK(aclrtFree(device));
}

static void pageable_memory_waits(void)
{
    unsigned char *from = pageable(5, LEN), *to = pageable(6, LEN);
    unsigned char *device = device_memory(7, LEN);

    WAITS(stream, aclrtMemcpyAsync(device, LEN, from, LEN, H2D, stream));
    HOLDS(device, 5, LEN);
    WAITS(stream, aclrtMemcpyAsync(to, LEN, device, LEN, D2H, stream));
    SAME(to, from, LEN);
    // The same with the direction left to the addresses.
    pattern(from, 8, LEN);
    WAITS(stream, aclrtMemcpyAsync(device, LEN, from, LEN, ACL_MEMCPY_DEFAULT, stream));
    HOLDS(device, 8, LEN);

    free(from);
    free(to);
    OK(aclrtFree(device));
}

// Kind 5 takes the bytes before it returns, and does not wait for the stream, pageable or not.
static void staged_copies_take_the_bytes_at_once(void)
{
    unsigned char *from = pageable(10, LEN), *locked = pinned(11, LEN);
    unsigned char *a = device_memory(12, LEN), *b = device_memory(13, LEN);

    gate_shut(&gate, stream);
    OK(aclrtMemcpyAsync(a, LEN, from, LEN, ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE, stream));
    OK(aclrtMemcpyAsync(b, LEN, locked, LEN, ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE, stream));
    memset(from, 0, LEN);
    memset(locked, 0, LEN);
    free(from);
    OK(aclrtFreeHost(locked));
    HOLDS(a, 12, LEN);
    gate_open(&gate);
    OK(aclrtSynchronizeStream(stream));
    HOLDS(a, 10, LEN);
    HOLDS(b, 11, LEN);

    OK(aclrtFree(a));
    OK(aclrtFree(b));
}

// Each copy reads what the one before it wrote.
static void one_stream_keeps_its_order(void)
{
    enum { STEPS = 200 };
    unsigned char *from = pinned(15, LEN), *to = pinned(16, LEN);
    unsigned char *chain[STEPS];
    int i;
    for (i = 0; i < STEPS; i++) {
        chain[i] = device_memory(17, LEN);
    }
    gate_shut(&gate, stream);
    OK(aclrtMemcpyAsync(chain[0], LEN, from, LEN, H2D, stream));
    for (i = 1; i < STEPS; i++) {
        OK(aclrtMemcpyAsync(chain[i], LEN, chain[i - 1], LEN, D2D, stream));
    }
    OK(aclrtMemcpyAsync(to, LEN, chain[STEPS - 1], LEN, D2H, stream));
    gate_open(&gate);
    OK(aclrtSynchronizeStream(stream));
    SAME(to, from, LEN);
    for (i = 0; i < STEPS; i++) {
        OK(aclrtFree(chain[i]));
    }
    OK(aclrtFreeHost(from));
    OK(aclrtFreeHost(to));
}

static void null_is_the_default_stream(void)
{
    unsigned char *from = pinned(20, LEN);
    unsigned char *device = device_memory(21, LEN);
    gate_shut(&gate, NULL);
    OK(aclrtMemcpyAsync(device, LEN, from, LEN, H2D, NULL));
    // The created stream has nothing to do with the default one.
    OK(aclrtSynchronizeStream(stream));
    HOLDS(device, 21, LEN);
    gate_open(&gate);
    OK(aclrtSynchronizeStream(NULL));
    HOLDS(device, 20, LEN);
    OK(aclrtFreeHost(from));
    OK(aclrtFree(device));
}

static void *without_a_context(void *device)
{
    unsigned char byte = 0;
    CHECK(aclrtMemcpyAsync(&byte, 1, device, 1, D2H, NULL), ACL_ERROR_RT_CONTEXT_NULL);
    CHECK(aclrtMemcpyAsync(&byte, 1, device, 1, D2H, stream), ACL_ERROR_RT_CONTEXT_NULL);
    return NULL;
}

static void bad_calls_are_refused(void)
{
    unsigned char *host = pinned(30, LEN), *other = pinned(31, LEN), *plain = pageable(32, LEN);
    unsigned char *device = device_memory(33, LEN), *gone = device_memory(34, LEN);
    aclrtContext mine = NULL, theirs = NULL;
    int kind;
    OK(aclrtFree(gone));

    // Host to host, whatever the memory.
    CHECK(aclrtMemcpyAsync(other, LEN, host, LEN, H2H, stream), ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
    CHECK(aclrtMemcpyAsync(plain, LEN, host, LEN, H2H, stream), ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
    CHECK(aclrtMemcpyAsync(plain, LEN, host, LEN, H2H, NULL), ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
    // Kinds that do not exist, and kinds that contradict the addresses.
    CHECK(aclrtMemcpyAsync(device, LEN, host, LEN, (aclrtMemcpyKind)8, stream), ACL_ERROR_INVALID_PARAM);
    CHECK(aclrtMemcpyAsync(device, LEN, host, LEN, (aclrtMemcpyKind)-1, stream), ACL_ERROR_INVALID_PARAM);
    CHECK(aclrtMemcpyAsync(device, LEN, host, LEN, D2H, stream), ACL_ERROR_RT_PARAM_INVALID);
    CHECK(aclrtMemcpyAsync(device, LEN, host, LEN, D2D, stream), ACL_ERROR_RT_PARAM_INVALID);
    CHECK(aclrtMemcpyAsync(host, LEN, device, LEN, H2D, stream), ACL_ERROR_RT_PARAM_INVALID);
    CHECK(aclrtMemcpyAsync(host, LEN, device, LEN, ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE, stream),
          ACL_ERROR_RT_PARAM_INVALID);

    for (kind = 1; kind <= 2; kind++) {
        unsigned char *dst = kind == 1 ? device : host, *src = kind == 1 ? host : device;
        aclrtMemcpyKind k = (aclrtMemcpyKind)kind;
        CHECK(aclrtMemcpyAsync(NULL, LEN, src, LEN, k, stream), ACL_ERROR_INVALID_PARAM);
        CHECK(aclrtMemcpyAsync(dst, LEN, NULL, LEN, k, stream), ACL_ERROR_INVALID_PARAM);
        CHECK(aclrtMemcpyAsync(dst, LEN - 1, src, LEN, k, stream), ACL_ERROR_RT_PARAM_INVALID);
        CHECK(aclrtMemcpyAsync(dst + LEN, LEN, src, LEN, k, stream), ACL_ERROR_RT_PARAM_INVALID);
        CHECK(aclrtMemcpyAsync(dst, LEN, src + LEN, LEN, k, stream), ACL_ERROR_RT_PARAM_INVALID);
        CHECK(aclrtMemcpyAsync(dst, SIZE_MAX, src, SIZE_MAX, k, stream), ACL_ERROR_RT_PARAM_INVALID);
        CHECK(aclrtMemcpyAsync(LOW_GARBAGE, LEN, src, LEN, k, stream), ACL_ERROR_RT_PARAM_INVALID);
        CHECK(aclrtMemcpyAsync(dst, LEN, HIGH_GARBAGE, LEN, k, stream), ACL_ERROR_RT_PARAM_INVALID);
        CHECK(aclrtMemcpyAsync(dst, LEN, gone, LEN, k, stream), ACL_ERROR_RT_PARAM_INVALID);
        CHECK(aclrtMemcpyAsync(gone, LEN, src, LEN, k, stream), ACL_ERROR_RT_PARAM_INVALID);
        OK(aclrtMemcpyAsync(dst, 0, src, 0, k, stream));
    }
    in_thread(without_a_context, device);

    // A stream belongs to the context that was current when it was made.
    OK(aclrtGetCurrentContext(&mine));
    OK(aclrtCreateContext(&theirs, 0));
    CHECK(aclrtMemcpyAsync(device, LEN, host, LEN, H2D, stream), ACL_ERROR_RT_STREAM_CONTEXT);
    OK(aclrtSetCurrentContext(mine));
    OK(aclrtDestroyContext(theirs));
    if (device_count() > 1) {
        OK(aclrtSetDevice(1));
        CHECK(aclrtMemcpyAsync(device, LEN, host, LEN, H2D, stream), ACL_ERROR_RT_STREAM_CONTEXT);
        OK(aclrtResetDevice(1));
        OK(aclrtSetCurrentContext(mine));
    }

    OK(aclrtSynchronizeStream(stream));
    HOLDS(device, 33, LEN);
    pattern(plain, 30, LEN);
    SAME(host, plain, LEN);
    pattern(plain, 31, LEN);
    SAME(other, plain, LEN);
    OK(aclrtFreeHost(host));
    OK(aclrtFreeHost(other));
    free(plain);
    OK(aclrtFree(device));
}

// One kind serves inside a device and between two; the exact kinds are never needed.
static void device_to_device_finds_its_way(void)
{
    unsigned char *a = device_memory(40, LEN), *b = device_memory(41, LEN), *far;
    OK(aclrtMemcpyAsync(b, LEN, a, LEN, D2D, stream));
    OK(aclrtSynchronizeStream(stream));
    HOLDS(b, 40, LEN);
    OK(aclrtMemcpyAsync(b, 100, a + 100, 100, INNER, stream));
    OK(aclrtMemcpyAsync(b + 100, 100, a + 100, 100, ACL_MEMCPY_DEFAULT, stream));
    OK(aclrtSynchronizeStream(stream));
    if (device_count() > 1) {
        aclrtContext mine = NULL;
        OK(aclrtGetCurrentContext(&mine));
        OK(aclrtSetDevice(1));
        far = device_memory(42, LEN);
        OK(aclrtSetCurrentContext(mine));
        CHECK(aclrtMemcpyAsync(far, LEN, a, LEN, D2D, stream), ACL_ERROR_RT_PARAM_INVALID);
        OK(aclrtDeviceEnablePeerAccess(1, 0));
        OK(aclrtMemcpyAsync(far, LEN, a, LEN, D2D, stream));
        OK(aclrtSynchronizeStream(stream));
        HOLDS(far, 40, LEN);
        OK(aclrtMemcpyAsync(b, LEN, far, LEN, ACL_MEMCPY_INTER_DEVICE_TO_DEVICE, stream));
        OK(aclrtSynchronizeStream(stream));
        HOLDS(b, 40, LEN);
        OK(aclrtDeviceDisablePeerAccess(1));
        OK(aclrtFree(far));
        OK(aclrtResetDevice(1));
    }
    OK(aclrtFree(a));
    OK(aclrtFree(b));
}

int main(void)
{
    begin();
    OK(aclrtCreateStream(&stream));
    page_locked_memory_only_delivers();
    pageable_memory_waits();
    staged_copies_take_the_bytes_at_once();
    one_stream_keeps_its_order();
    null_is_the_default_stream();
    bad_calls_are_refused();
    device_to_device_finds_its_way();
    OK(aclrtDestroyStream(stream));
    return finish("aclrtMemcpyAsync");
}
