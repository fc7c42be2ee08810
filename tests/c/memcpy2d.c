// aclrtMemcpy2d moves a rectangle between host and device at once: width bytes of each row, rows a pitch
// apart, and not a byte between them. It knows two kinds, and no largest width or height.
#include "kit.h"

enum { DPITCH = 96, SPITCH = 64, WIDTH = 50, HEIGHT = 33 };
enum { DLEN = DPITCH * HEIGHT, SLEN = SPITCH * HEIGHT };

static struct gate gate = GATE;

// What a 2-D copy has to do.
static void by_hand(unsigned char *dst, size_t dpitch, const unsigned char *src, size_t spitch, size_t width,
                    size_t height)
{
    size_t row;
    for (row = 0; row < height; row++) {
        memcpy(dst + row * dpitch, src + row * spitch, width);
    }
}

static void rectangles_land_where_they_should(unsigned char *host, unsigned char *back)
{
    unsigned char *want = pageable(3, DLEN), *got = pageable(0, DLEN);
    unsigned char *device = device_memory(3, DLEN);

    OK(aclrtMemcpy2d(device, DPITCH, host, SPITCH, WIDTH, HEIGHT, H2D));
    by_hand(want, DPITCH, host, SPITCH, WIDTH, HEIGHT);
    peek(got, device, DLEN);
    SAME(got, want, DLEN);

    memcpy(got, back, SLEN);
    OK(aclrtMemcpy2d(back, SPITCH, device + 5, DPITCH, WIDTH - 9, HEIGHT, D2H));
    by_hand(got, SPITCH, want + 5, DPITCH, WIDTH - 9, HEIGHT);
    SAME(back, got, SLEN);

    free(want);
    free(got);
    OK(aclrtFree(device));
}

// The last row needs its width, not its pitch.
static void the_last_row_may_end_the_allocation(void)
{
    size_t len = 2 * 1024 + 128, padded = len + 32;
    unsigned char *host = pageable(5, 4096);
    unsigned char *device = device_memory(6, len);
    OK(aclrtMemcpy2d(device, 1024, host, 128, 128, 3, H2D));
    CHECK(aclrtMemcpy2d(device, 1024, host, 256, padded - 2048 + 1, 3, H2D), ACL_ERROR_RT_PARAM_INVALID);
    CHECK(aclrtMemcpy2d(device, 1024, host, 128, 128, 4, H2D), ACL_ERROR_RT_PARAM_INVALID);
    CHECK(aclrtMemcpy2d(host, 128, device, 1024, 128, 4, D2H), ACL_ERROR_RT_PARAM_INVALID);
    free(host);
    OK(aclrtFree(device));
}

static void large_rectangles_are_fine(void)
{
    size_t wide = 5000001, tall = 5242881;
    unsigned char *host = pageable(7, tall);
    unsigned char *device = device_memory(8, tall);
    OK(aclrtMemcpy2d(device, wide, host, wide, wide, 1, H2D));
    HOLDS(device, 7, wide);
    pattern(host, 9, tall);
    OK(aclrtMemcpy2d(device, 1, host, 1, 1, tall, H2D));
    HOLDS(device, 9, tall);
    free(host);
    OK(aclrtFree(device));
}

static void streams_are_not_waited_for(void)
{
    unsigned char *host = pageable(11, SLEN);
    unsigned char *device = device_memory(12, SLEN);
    gate_shut(&gate, NULL);
    OK(aclrtMemcpy2d(device, SPITCH, host, SPITCH, SPITCH, HEIGHT, H2D));
    HOLDS(device, 11, SLEN);
    gate_open(&gate);
    OK(aclrtSynchronizeStream(NULL));
    free(host);
    OK(aclrtFree(device));
}

static void bad_calls_are_refused(void)
{
    unsigned char *host = pageable(20, SLEN);
    unsigned char *device = device_memory(21, SLEN), *other = device_memory(22, SLEN);
    int kind;
    for (kind = -1; kind <= 8; kind++) {
        if (kind != 1 && kind != 2) {
            CHECK(aclrtMemcpy2d(device, SPITCH, host, SPITCH, WIDTH, HEIGHT, (aclrtMemcpyKind)kind),
                  ACL_ERROR_INVALID_PARAM);
        }
    }
    CHECK(aclrtMemcpy2d(device, SPITCH, other, SPITCH, WIDTH, HEIGHT, D2D), ACL_ERROR_INVALID_PARAM);
    CHECK(aclrtMemcpy2d(NULL, SPITCH, host, SPITCH, WIDTH, HEIGHT, H2D), ACL_ERROR_INVALID_PARAM);
    CHECK(aclrtMemcpy2d(device, SPITCH, NULL, SPITCH, WIDTH, HEIGHT, H2D), ACL_ERROR_INVALID_PARAM);
    CHECK(aclrtMemcpy2d(device, WIDTH - 1, host, SPITCH, WIDTH, HEIGHT, H2D), ACL_ERROR_RT_PARAM_INVALID);
    CHECK(aclrtMemcpy2d(device, SPITCH, host, WIDTH - 1, WIDTH, HEIGHT, H2D), ACL_ERROR_RT_PARAM_INVALID);
    CHECK(aclrtMemcpy2d(device, SIZE_MAX / 2, host, SPITCH, WIDTH, 5, H2D), ACL_ERROR_RT_PARAM_INVALID);
    CHECK(aclrtMemcpy2d(device, SPITCH, host, SIZE_MAX / 2, WIDTH, 5, H2D), ACL_ERROR_RT_PARAM_INVALID);
    CHECK(aclrtMemcpy2d(device, SPITCH, host, SPITCH, WIDTH, SIZE_MAX, H2D), ACL_ERROR_RT_PARAM_INVALID);
    CHECK(aclrtMemcpy2d(device, SPITCH, LOW_GARBAGE, SPITCH, WIDTH, HEIGHT, H2D), ACL_ERROR_RT_PARAM_INVALID);
    CHECK(aclrtMemcpy2d(HIGH_GARBAGE, SPITCH, device, SPITCH, WIDTH, HEIGHT, D2H),
          ACL_ERROR_RT_PARAM_INVALID);
    CHECK(aclrtMemcpy2d(host, SPITCH, device, SPITCH, WIDTH, HEIGHT, H2D), ACL_ERROR_RT_PARAM_INVALID);
    OK(aclrtMemcpy2d(device, SPITCH, host, SPITCH, 0, HEIGHT, H2D));
    OK(aclrtMemcpy2d(device, SPITCH, host, SPITCH, WIDTH, 0, H2D));
    HOLDS(device, 21, SLEN);
    HOLDS(other, 22, SLEN);
    free(host);
    OK(aclrtFree(device));
    OK(aclrtFree(other));
}

int main(void)
{
    unsigned char *plain, *locked;
    begin();
    plain = pageable(1, SLEN);
    locked = pinned(2, SLEN);
    rectangles_land_where_they_should(plain, locked);
    rectangles_land_where_they_should(locked, plain);
    the_last_row_may_end_the_allocation();
    large_rectangles_are_fine();
    streams_are_not_waited_for();
    bad_calls_are_refused();
    free(plain);
    OK(aclrtFreeHost(locked));
    return finish("aclrtMemcpy2d");
}
