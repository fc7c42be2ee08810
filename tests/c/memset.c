// The four fills: bytes and 32-bit values, at once and in a stream, on device memory and on host memory.
#include "kit.h"

enum { LEN = 4096, WORDS = 100 };

static struct gate gate = GATE;
static aclrtStream stream;

static void fill_words(unsigned char *to, uint32_t value, size_t count)
{
    size_t i;
    for (i = 0; i < count; i++) {
        memcpy(to + 4 * i, &value, 4);
    }
}

static void at_once(void)
{
    unsigned char *device = device_memory(1, LEN), *locked = pinned(2, LEN), *plain = pageable(3, LEN);
    unsigned char want[LEN], got[LEN];

    // The lowest byte counts, and only count bytes of the block.
    OK(aclrtMemset(device + 5, LEN - 5, 0x1234, 300));
    pattern(want, 1, LEN);
    memset(want + 5, 0x34, 300);
    peek(got, device, LEN);
    SAME(got, want, LEN);
    OK(aclrtMemset(locked, LEN, -1, 300));
    FILLED(locked, 0xff, 300);
    pattern(want, 2, LEN);
    SAME(locked + 300, want + 300, LEN - 300);
    OK(aclrtMemset(plain, LEN, 7, LEN));
    FILLED(plain, 7, LEN);

    OK(aclrtMemsetD32(device, LEN, 0xdeadbeef, WORDS));
    pattern(want, 1, LEN);
    fill_words(want, 0xdeadbeef, WORDS);
    peek(got, device, LEN);
    SAME(got, want, LEN);
    OK(aclrtMemsetD32(locked, 4 * WORDS, 0x01020304, WORDS));
    fill_words(got, 0x01020304, WORDS);
    SAME(locked, got, 4 * WORDS);
    pattern(want, 2, LEN);
    SAME(locked + 4 * WORDS, want + 4 * WORDS, LEN - 4 * WORDS);

    // A stream that stands still does not matter.
    gate_shut(&gate, NULL);
    OK(aclrtMemset(device, LEN, 9, LEN));
    peek(got, device, LEN);
    FILLED(got, 9, LEN);
    gate_open(&gate);
    OK(aclrtSynchronizeStream(NULL));

    OK(aclrtMemset(device, LEN, 1, 0));
    OK(aclrtMemsetD32(device, LEN, 1, 0));
    peek(got, device, LEN);
    FILLED(got, 9, LEN);
    OK(aclrtFree(device));
    OK(aclrtFreeHost(locked));
    free(plain);
}

static void in_a_stream(void)
{
    unsigned char *device = device_memory(10, LEN), *words = device_memory(11, LEN),
                  *locked = pinned(12, LEN);
    unsigned char got[LEN], want[LEN];
    gate_shut(&gate, stream);
    OK(aclrtMemsetAsync(device, LEN, 0x55, LEN, stream));
    OK(aclrtMemsetD32Async(words, LEN, 0xcafef00d, WORDS, stream));
    OK(aclrtMemcpyAsync(locked, 100, device, 100, D2H, stream));
    HOLDS(device, 10, LEN);
    HOLDS(words, 11, LEN);
    gate_open(&gate);
    OK(aclrtSynchronizeStream(stream));
    peek(got, device, LEN);
    FILLED(got, 0x55, LEN);
    FILLED(locked, 0x55, 100);
    pattern(want, 11, LEN);
    fill_words(want, 0xcafef00d, WORDS);
    peek(got, words, LEN);
    SAME(got, want, LEN);

    // Filling host memory with 32-bit values never goes to the stream.
    gate_shut(&gate, stream);
    OK(aclrtMemsetD32Async(locked, LEN, 0x0badcafe, LEN / 4, stream));
    fill_words(want, 0x0badcafe, LEN / 4);
    SAME(locked, want, LEN);
    gate_open(&gate);
    OK(aclrtSynchronizeStream(stream));

    // NULL is the default stream.
    gate_shut(&gate, NULL);
    OK(aclrtMemsetAsync(device, LEN, 1, LEN, NULL));
    peek(got, device, LEN);
    FILLED(got, 0x55, LEN);
    gate_open(&gate);
    OK(aclrtSynchronizeStream(NULL));
    peek(got, device, LEN);
    FILLED(got, 1, LEN);
    OK(aclrtFree(device));
    OK(aclrtFree(words));
    OK(aclrtFreeHost(locked));
}

static void bad_calls_are_refused(void)
{
    unsigned char *device = device_memory(20, LEN), *gone = device_memory(21, LEN);
    OK(aclrtFree(gone));
    CHECK(aclrtMemset(NULL, LEN, 0, LEN), ACL_ERROR_INVALID_PARAM);
    CHECK(aclrtMemsetAsync(NULL, LEN, 0, LEN, stream), ACL_ERROR_INVALID_PARAM);
    CHECK(aclrtMemsetD32(NULL, LEN, 0, 1), ACL_ERROR_INVALID_PARAM);
    CHECK(aclrtMemsetD32Async(NULL, LEN, 0, 1, stream), ACL_ERROR_INVALID_PARAM);
    CHECK(aclrtMemset(device, LEN - 1, 0, LEN), ACL_ERROR_RT_PARAM_INVALID);
    CHECK(aclrtMemsetAsync(device, LEN - 1, 0, LEN, stream), ACL_ERROR_RT_PARAM_INVALID);
    CHECK(aclrtMemsetD32(device, 4 * WORDS - 1, 0, WORDS), ACL_ERROR_RT_PARAM_INVALID);
    CHECK(aclrtMemsetD32Async(device, 4 * WORDS - 1, 0, WORDS, stream), ACL_ERROR_RT_PARAM_INVALID);
    CHECK(aclrtMemsetD32(device, LEN, 0, SIZE_MAX / 4 + 2), ACL_ERROR_RT_PARAM_INVALID);
    CHECK(aclrtMemset(device, 2 * LEN, 0, 2 * LEN), ACL_ERROR_RT_PARAM_INVALID);
    CHECK(aclrtMemsetAsync(device, SIZE_MAX, 0, SIZE_MAX, stream), ACL_ERROR_RT_PARAM_INVALID);
    CHECK(aclrtMemset(gone, LEN, 0, LEN), ACL_ERROR_RT_PARAM_INVALID);
    CHECK(aclrtMemset(LOW_GARBAGE, LEN, 0, LEN), ACL_ERROR_RT_PARAM_INVALID);
    CHECK(aclrtMemsetAsync(HIGH_GARBAGE, LEN, 0, LEN, stream), ACL_ERROR_RT_PARAM_INVALID);
    OK(aclrtSynchronizeStream(stream));
    HOLDS(device, 20, LEN);
    OK(aclrtFree(device));
}

int main(void)
{
    begin();
    OK(aclrtCreateStream(&stream));
    at_once();
    in_a_stream();
    bad_calls_are_refused();
    OK(aclrtDestroyStream(stream));
    return finish("aclrtMemset, aclrtMemsetAsync, aclrtMemsetD32, aclrtMemsetD32Async");
}
