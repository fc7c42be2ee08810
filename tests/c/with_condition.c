// proves: R20 R22 R23 R24 R25 R27 R28 R33
// aclrtMemcpyAsyncWithCondition copies like aclrtMemcpyAsync: it only delivers for memory that acl allocated,
// waits for memory that it did not, and refuses host to host.
#include "kit.h"

enum { LEN = 5000 };

static struct gate gate = GATE;
static aclrtStream stream;

typedef aclError (*copy_fn)(void *dst, size_t destMax, const void *src, size_t count, aclrtMemcpyKind kind,
                            aclrtStream stream);
static const copy_fn copy = aclrtMemcpyAsyncWithCondition;

static void memory_of_acl_only_delivers(void)
{
    unsigned char *from = pinned(1, LEN), *to = pinned(2, LEN), *old = pageable(2, LEN);
    unsigned char *a = device_memory(3, LEN), *b = device_memory(4, LEN);
    gate_shut(&gate, stream);
    OK(copy(a, LEN, from, LEN, H2D, stream));
    OK(copy(b, LEN, a, LEN, D2D, stream));
    OK(copy(to, LEN, b, LEN, D2H, stream));
    HOLDS(a, 3, LEN);
    HOLDS(b, 4, LEN);
    SAME(to, old, LEN);
    gate_open(&gate);
    OK(aclrtSynchronizeStream(stream));
    SAME(to, from, LEN);
    HOLDS(b, 1, LEN);
    OK(aclrtFreeHost(from));
    OK(aclrtFreeHost(to));
    free(old);
    OK(aclrtFree(a));
    OK(aclrtFree(b));
}

static void other_memory_waits(void)
{
    unsigned char *from = pageable(5, LEN), *to = pageable(6, LEN);
    unsigned char *device = device_memory(7, LEN);
    WAITS(stream, copy(device, LEN, from, LEN, H2D, stream));
    HOLDS(device, 5, LEN);
    WAITS(stream, copy(to, LEN, device, LEN, D2H, stream));
    SAME(to, from, LEN);
    free(from);
    free(to);
    OK(aclrtFree(device));
}

static void the_kinds_have_their_documented_numbers(void)
{
    unsigned char *host = pinned(10, LEN);
    unsigned char *a = device_memory(11, LEN), *b = device_memory(12, LEN);
    CHECK(copy(host, LEN, host, LEN, (aclrtMemcpyKind)0, stream), ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
    OK(copy(a, LEN, host, LEN, (aclrtMemcpyKind)1, stream));
    OK(copy(b, LEN, a, LEN, (aclrtMemcpyKind)3, stream));
    OK(aclrtSynchronizeStream(stream));
    HOLDS(b, 10, LEN);
    pattern(host, 13, LEN);
    OK(copy(a, LEN, host, LEN, (aclrtMemcpyKind)4, stream));
    OK(aclrtSynchronizeStream(stream));
    pattern(host, 14, LEN);
    OK(copy(host, LEN, a, LEN, (aclrtMemcpyKind)2, stream));
    OK(aclrtSynchronizeStream(stream));
    HOLDS(a, 13, LEN);
    poke(b, host, LEN);
    HOLDS(b, 13, LEN);
    OK(aclrtFreeHost(host));
    OK(aclrtFree(a));
    OK(aclrtFree(b));
}

// The page of the Python function asks for 64-byte alignment; callers of the C function pass any address.
static void any_alignment_will_do(void)
{
    unsigned char *from = pinned(20, LEN), *to = pinned(21, LEN);
    unsigned char *device = device_memory(22, LEN);
    OK(copy(device + 1, LEN - 1, from + 3, 1000, H2D, stream));
    OK(copy(to + 5, LEN - 5, device + 1, 1000, D2H, stream));
    OK(aclrtSynchronizeStream(stream));
    SAME(to + 5, from + 3, 1000);
    OK(aclrtFreeHost(from));
    OK(aclrtFreeHost(to));
    OK(aclrtFree(device));
}

static void bad_calls_are_refused(void)
{
    unsigned char *host = pinned(30, LEN), *plain = pageable(31, LEN);
    unsigned char *device = device_memory(32, LEN);
    CHECK(copy(plain, LEN, host, LEN, H2H, stream), ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
    CHECK(copy(NULL, LEN, host, LEN, H2D, stream), ACL_ERROR_INVALID_PARAM);
    CHECK(copy(device, LEN, NULL, LEN, H2D, stream), ACL_ERROR_INVALID_PARAM);
    CHECK(copy(device, LEN, host, LEN, (aclrtMemcpyKind)99, stream), ACL_ERROR_INVALID_PARAM);
    CHECK(copy(device, LEN - 1, host, LEN, H2D, stream), ACL_ERROR_RT_PARAM_INVALID);
    CHECK(copy(device, LEN, host, LEN, D2H, stream), ACL_ERROR_RT_PARAM_INVALID);
    CHECK(copy(device, LEN, LOW_GARBAGE, LEN, H2D, stream), ACL_ERROR_RT_PARAM_INVALID);
    CHECK(copy(device, 2 * LEN, host, 2 * LEN, H2D, stream), ACL_ERROR_RT_PARAM_INVALID);
    OK(aclrtSynchronizeStream(stream));
    HOLDS(device, 32, LEN);
    pattern(host, 31, LEN);
    SAME(plain, host, LEN);
    OK(aclrtFreeHost(host));
    free(plain);
    OK(aclrtFree(device));
}

int main(void)
{
    begin();
    OK(aclrtCreateStream(&stream));
    memory_of_acl_only_delivers();
    other_memory_waits();
    the_kinds_have_their_documented_numbers();
    any_alignment_will_do();
    bad_calls_are_refused();
    OK(aclrtDestroyStream(stream));
    return finish("aclrtMemcpyAsyncWithCondition");
}
