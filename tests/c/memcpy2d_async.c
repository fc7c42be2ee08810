// proves: R1 R2 R3 R4 R6 R7 R8 R9 R11 R12 R13 R14 R15 R16 R17 N13 N14 N15
// aclrtMemcpy2dAsync delivers a rectangle to its stream, waits for it when the host memory is pageable, and
// refuses other kinds, rows wider than their pitch, and more rows or wider ones than the documents allow.
#include "kit.h"

enum { DPITCH = 96, SPITCH = 64, WIDTH = 50, HEIGHT = 33 };
enum { DLEN = DPITCH * HEIGHT, SLEN = SPITCH * HEIGHT };

typedef aclError (*copy_fn)(void *dst, size_t dpitch, const void *src, size_t spitch, size_t width,
                            size_t height, aclrtMemcpyKind kind, aclrtStream stream);
static const copy_fn copy = aclrtMemcpy2dAsync;

static struct gate gate = GATE;
static aclrtStream stream;

static void by_hand(unsigned char *dst, size_t dpitch, const unsigned char *src, size_t spitch, size_t width,
                    size_t height)
{
    size_t row;
    for (row = 0; row < height; row++) {
        memcpy(dst + row * dpitch, src + row * spitch, width);
    }
}

static void page_locked_rectangles_are_only_delivered(void)
{
    unsigned char *from = pinned(1, SLEN), *to = pinned(2, SLEN);
    unsigned char *want = pageable(3, DLEN), *got = pageable(0, DLEN), *back = pageable(2, SLEN);
    unsigned char *device = device_memory(3, DLEN);

    gate_shut(&gate, stream);
    OK(copy(device, DPITCH, from, SPITCH, WIDTH, HEIGHT, H2D, stream));
    OK(copy(to, SPITCH, device + 5, DPITCH, WIDTH - 9, HEIGHT, D2H, stream));
    HOLDS(device, 3, DLEN);
    SAME(to, back, SLEN);
    gate_open(&gate);
    OK(aclrtSynchronizeStream(stream));

    by_hand(want, DPITCH, from, SPITCH, WIDTH, HEIGHT);
    peek(got, device, DLEN);
    SAME(got, want, DLEN);
    by_hand(back, SPITCH, want + 5, DPITCH, WIDTH - 9, HEIGHT);
    SAME(to, back, SLEN);

    OK(aclrtFreeHost(from));
    OK(aclrtFreeHost(to));
    free(want);
    free(got);
    free(back);
    OK(aclrtFree(device));
}

static void pageable_rectangles_wait(void)
{
    unsigned char *from = pageable(5, SLEN), *to = pageable(6, SLEN), *want = pageable(6, SLEN);
    unsigned char *device = device_memory(7, SLEN);
    WAITS(stream, copy(device, SPITCH, from, SPITCH, SPITCH, HEIGHT, H2D, stream));
    HOLDS(device, 5, SLEN);
    WAITS(stream, copy(to, SPITCH, device, SPITCH, WIDTH, HEIGHT, D2H, stream));
    by_hand(want, SPITCH, from, SPITCH, WIDTH, HEIGHT);
    SAME(to, want, SLEN);
    free(from);
    free(to);
    free(want);
    OK(aclrtFree(device));
}

static void inside_a_device_too(void)
{
    unsigned char *a = device_memory(10, SLEN), *b = device_memory(11, DLEN);
    unsigned char *from = pageable(10, SLEN), *want = pageable(11, DLEN), *got = pageable(0, DLEN);
    gate_shut(&gate, stream);
    OK(copy(b, DPITCH, a, SPITCH, WIDTH, HEIGHT, D2D, stream));
    HOLDS(b, 11, DLEN);
    gate_open(&gate);
    OK(aclrtSynchronizeStream(stream));
    by_hand(want, DPITCH, from, SPITCH, WIDTH, HEIGHT);
    peek(got, b, DLEN);
    SAME(got, want, DLEN);
    free(from);
    free(want);
    free(got);
    OK(aclrtFree(a));
    OK(aclrtFree(b));
}

// Both limits are the last good value.
static void limits(void)
{
    size_t tall = 5 * 1024 * 1024, wide = 5000000;
    unsigned char *host = pinned(15, tall + 1);
    unsigned char *device = device_memory(16, tall + 1);
    CHECK(copy(device, 1, host, 1, 1, tall + 1, H2D, stream), ACL_ERROR_RT_PARAM_INVALID);
    CHECK(copy(device, wide + 1, host, wide + 1, wide + 1, 1, H2D, stream), ACL_ERROR_RT_PARAM_INVALID);
    OK(aclrtSynchronizeStream(stream));
    HOLDS(device, 16, tall + 1);

    OK(copy(device, wide, host, wide, wide, 1, H2D, stream));
    OK(aclrtSynchronizeStream(stream));
    HOLDS(device, 15, wide);
    pattern(host, 17, tall + 1);
    OK(copy(device, 1, host, 1, 1, tall, H2D, stream));
    OK(aclrtSynchronizeStream(stream));
    HOLDS(device, 17, tall);
    OK(aclrtFreeHost(host));
    OK(aclrtFree(device));
}

static void bad_calls_are_refused(void)
{
    unsigned char *host = pinned(20, SLEN);
    unsigned char *device = device_memory(21, SLEN);
    int kind;
    THAT(ACL_MEMCPY_HOST_TO_HOST == 0 && ACL_MEMCPY_HOST_TO_DEVICE == 1 && ACL_MEMCPY_DEVICE_TO_HOST == 2);
    THAT(ACL_MEMCPY_DEVICE_TO_DEVICE == 3 && ACL_MEMCPY_DEFAULT == 4);
    for (kind = -1; kind <= 9; kind++) {
        if (kind < 1 || kind > 3) {
            CHECK(copy(device, SPITCH, host, SPITCH, WIDTH, HEIGHT, (aclrtMemcpyKind)kind, stream),
                  ACL_ERROR_INVALID_PARAM);
        }
    }
    CHECK(copy(NULL, SPITCH, host, SPITCH, WIDTH, HEIGHT, H2D, stream), ACL_ERROR_INVALID_PARAM);
    CHECK(copy(device, SPITCH, NULL, SPITCH, WIDTH, HEIGHT, H2D, stream), ACL_ERROR_INVALID_PARAM);
    CHECK(copy(device, WIDTH - 1, host, SPITCH, WIDTH, HEIGHT, H2D, stream), ACL_ERROR_RT_PARAM_INVALID);
    CHECK(copy(device, SPITCH, host, WIDTH - 1, WIDTH, HEIGHT, H2D, stream), ACL_ERROR_RT_PARAM_INVALID);
    CHECK(copy(device, SPITCH, host, SPITCH, SPITCH, HEIGHT + 1, H2D, stream), ACL_ERROR_RT_PARAM_INVALID);
    CHECK(copy(device, SIZE_MAX / 2, host, SPITCH, WIDTH, 5, H2D, stream), ACL_ERROR_RT_PARAM_INVALID);
    CHECK(copy(device, SPITCH, host, SIZE_MAX / 2, WIDTH, 5, H2D, stream), ACL_ERROR_RT_PARAM_INVALID);
    CHECK(copy(device, SPITCH, LOW_GARBAGE, SPITCH, WIDTH, HEIGHT, H2D, stream), ACL_ERROR_RT_PARAM_INVALID);
    CHECK(copy(HIGH_GARBAGE, SPITCH, device, SPITCH, WIDTH, HEIGHT, D2H, stream), ACL_ERROR_RT_PARAM_INVALID);
    CHECK(copy(device, SPITCH, host, SPITCH, WIDTH, HEIGHT, D2H, stream), ACL_ERROR_RT_PARAM_INVALID);
    CHECK(copy(device, SPITCH, host, SPITCH, WIDTH, HEIGHT, D2D, stream), ACL_ERROR_RT_PARAM_INVALID);
    OK(copy(device, SPITCH, host, SPITCH, 0, HEIGHT, H2D, stream));
    OK(copy(device, SPITCH, host, SPITCH, WIDTH, 0, H2D, stream));
    OK(aclrtSynchronizeStream(stream));
    HOLDS(device, 21, SLEN);
    OK(aclrtFreeHost(host));
    OK(aclrtFree(device));
}

int main(void)
{
    begin();
    OK(aclrtCreateStream(&stream));
    page_locked_rectangles_are_only_delivered();
    pageable_rectangles_wait();
    inside_a_device_too();
    limits();
    bad_calls_are_refused();
    OK(aclrtDestroyStream(stream));
    return finish("aclrtMemcpy2dAsync");
}
