// aclrtReduceAsync combines device memory with other memory of the device, in stream order: sum, maximum and
// minimum.
#include "kit.h"

enum { COUNT = 1000, LEN = 4 * COUNT };

#define SUM ACL_RT_MEMCPY_SDMA_AUTOMATIC_SUM
#define MAX ACL_RT_MEMCPY_SDMA_AUTOMATIC_MAX
#define MIN ACL_RT_MEMCPY_SDMA_AUTOMATIC_MIN
#define EQUAL ACL_RT_MEMCPY_SDMA_AUTOMATIC_EQUAL

static struct gate gate = GATE;
static aclrtStream stream;

// What two integers become; sums wrap.
static int32_t combined(aclrtReduceKind kind, int32_t a, int32_t b)
{
    if (kind == SUM) {
        uint32_t sum = (uint32_t)a + (uint32_t)b;
        memcpy(&a, &sum, 4);
        return a;
    }
    return (kind == MAX) == (a > b) ? a : b;
}

static void integers(aclrtReduceKind kind)
{
    unsigned char *dst = device_memory(1, LEN), *src = device_memory(2, LEN), *more = pinned(3, LEN);
    int32_t a[COUNT], b[COUNT], want[COUNT], got[COUNT];
    int i;
    pattern(a, 3, LEN);
    pattern(b, 2, LEN);
    for (i = 0; i < COUNT; i++) {
        want[i] = combined(kind, a[i], b[i]);
    }
    // Between two copies: it sees what the first brings, and nothing happens before the stream gets there.
    gate_shut(&gate, stream);
    OK(aclrtMemcpyAsync(dst, LEN, more, LEN, H2D, stream));
    OK(aclrtReduceAsync(dst, src, LEN, kind, ACL_INT32, stream, NULL));
    OK(aclrtMemcpyAsync(more, LEN, dst, LEN, D2H, stream));
    HOLDS(dst, 1, LEN);
    gate_open(&gate);
    OK(aclrtSynchronizeStream(stream));
    SAME(more, want, LEN);
    peek(got, dst, LEN);
    SAME(got, want, LEN);
    HOLDS(src, 2, LEN);
    OK(aclrtFree(dst));
    OK(aclrtFree(src));
    OK(aclrtFreeHost(more));
}

static void floats(void)
{
    void *dst = NULL, *src = NULL;
    float a[4] = {1.5f, -2.0f, 0.0f, 1e30f}, b[4] = {0.25f, 3.0f, -0.0f, 1e30f}, got[4];
    float sum[4] = {1.75f, 1.0f, 0.0f, 2e30f};
    // 1, the largest, and 1 + 2^-11, which lies between two numbers and goes to the even one.
    uint16_t halves[3] = {0x3c00, 0x7bff, 0x3c00}, others[3] = {0x3c00, 0x7bff, 0x1000},
             short_sum[3] = {0x4000, 0x7c00, 0x3c00};
    OK(aclrtMalloc(&dst, sizeof a, ACL_MEM_MALLOC_NORMAL_ONLY));
    OK(aclrtMalloc(&src, sizeof b, ACL_MEM_MALLOC_NORMAL_ONLY));
    poke(dst, a, sizeof a);
    poke(src, b, sizeof b);
    OK(aclrtReduceAsync(dst, src, sizeof a, SUM, ACL_FLOAT, NULL, NULL));
    OK(aclrtSynchronizeStream(NULL));
    peek(got, dst, sizeof a);
    SAME(got, sum, sizeof a);
    poke(dst, halves, sizeof halves);
    poke(src, others, sizeof others);
    OK(aclrtReduceAsync(dst, src, sizeof halves, SUM, ACL_FLOAT16, stream, NULL));
    OK(aclrtSynchronizeStream(stream));
    peek(halves, dst, sizeof halves);
    SAME(halves, short_sum, sizeof halves);
    OK(aclrtFree(dst));
    OK(aclrtFree(src));
}

static void bad_calls_are_refused(void)
{
    unsigned char *device = device_memory(20, LEN), *gone = device_memory(21, LEN), *locked = pinned(22, LEN);
    OK(aclrtFree(gone));
    CHECK(aclrtReduceAsync(NULL, device, LEN, SUM, ACL_INT32, stream, NULL), ACL_ERROR_INVALID_PARAM);
    CHECK(aclrtReduceAsync(device, NULL, LEN, SUM, ACL_INT32, stream, NULL), ACL_ERROR_INVALID_PARAM);
    CHECK(aclrtReduceAsync(device, device, LEN, EQUAL, ACL_INT32, stream, NULL),
          ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
    CHECK(aclrtReduceAsync(device, device, LEN, SUM, ACL_INT64, stream, NULL),
          ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
    CHECK(aclrtReduceAsync(device, device, LEN - 1, SUM, ACL_INT32, stream, NULL),
          ACL_ERROR_RT_PARAM_INVALID);
    CHECK(aclrtReduceAsync(device, device, 2 * LEN, SUM, ACL_INT32, stream, NULL),
          ACL_ERROR_RT_PARAM_INVALID);
    CHECK(aclrtReduceAsync(gone, device, LEN, SUM, ACL_INT32, stream, NULL), ACL_ERROR_RT_PARAM_INVALID);
    CHECK(aclrtReduceAsync(device, locked, LEN, SUM, ACL_INT32, stream, NULL), ACL_ERROR_RT_PARAM_INVALID);
    CHECK(aclrtReduceAsync(LOW_GARBAGE, device, LEN, SUM, ACL_INT32, stream, NULL),
          ACL_ERROR_RT_PARAM_INVALID);
    CHECK(aclrtReduceAsync(device, HIGH_GARBAGE, LEN, SUM, ACL_INT32, stream, NULL),
          ACL_ERROR_RT_PARAM_INVALID);
    OK(aclrtReduceAsync(device, device + 1, 0, SUM, ACL_INT32, stream, NULL));
    OK(aclrtSynchronizeStream(stream));
    HOLDS(device, 20, LEN);
    OK(aclrtFree(device));
    OK(aclrtFreeHost(locked));
}

int main(void)
{
    begin();
    OK(aclrtCreateStream(&stream));
    integers(SUM);
    integers(MAX);
    integers(MIN);
    floats();
    bad_calls_are_refused();
    OK(aclrtDestroyStream(stream));
    return finish("aclrtReduceAsync");
}
