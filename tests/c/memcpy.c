// proves: N1 N2 N3 N4 X10
// aclrtMemcpy moves bytes in every direction at once, whatever kind it is told and whatever the streams are
// busy with, and refuses what it cannot do without touching a byte.
#include "kit.h"

#include <sys/mman.h>

enum { LEN = 5000 };

static struct gate gate = GATE;

static void every_direction(void)
{
    unsigned char *plain = pageable(1, LEN), *back = pageable(2, LEN);
    unsigned char *locked = pinned(3, LEN);
    unsigned char *a = device_memory(4, LEN), *b = device_memory(5, LEN);

    OK(aclrtMemcpy(a, LEN, plain, LEN, H2D));
    OK(aclrtMemcpy(b, LEN, a, LEN, D2D));
    OK(aclrtMemcpy(locked, LEN, b, LEN, D2H));
    OK(aclrtMemcpy(back, LEN, locked, LEN, H2H));
    SAME(back, plain, LEN);

    // A part, at odd addresses; its surroundings stay.
    OK(aclrtMemcpy(a + 7, LEN - 7, locked + 3, 100, H2D));
    peek(back, a, LEN);
    SAME(back, plain, 7);
    SAME(back + 7, plain + 3, 100);
    SAME(back + 107, plain + 107, LEN - 107);

    // Ranges that overlap come out as with memmove.
    pattern(back, 6, LEN);
    poke(a, back, LEN);
    OK(aclrtMemcpy(a + 64, LEN - 64, a, 1000, D2D));
    memmove(back + 64, back, 1000);
    peek(plain, a, LEN);
    SAME(plain, back, LEN);

    OK(aclrtMemcpy(a, 0, plain, 0, H2D));
    free(plain);
    free(back);
    OK(aclrtFreeHost(locked));
    OK(aclrtFree(a));
    OK(aclrtFree(b));
}

static void the_kind_has_no_effect(void)
{
    unsigned char *host = pageable(0, LEN);
    unsigned char *device = device_memory(0, LEN);
    int kind;
    for (kind = -1; kind <= 9; kind++) {
        pattern(host, (unsigned)(10 + kind), LEN);
        OK(aclrtMemcpy(device, LEN, host, LEN, (aclrtMemcpyKind)kind));
        memset(host, 0, LEN);
        OK(aclrtMemcpy(host, LEN, device, LEN, (aclrtMemcpyKind)kind));
        HOLDS(device, (unsigned)(10 + kind), LEN);
    }
    free(host);
    OK(aclrtFree(device));
}

static void busy_streams_are_not_waited_for(void)
{
    unsigned char *early = pinned(21, LEN), *late = pinned(22, LEN);
    unsigned char *device = device_memory(20, LEN);
    aclrtStream streams[2] = {NULL, NULL};
    int i;
    OK(aclrtCreateStream(&streams[1]));
    for (i = 0; i < 2; i++) {
        gate_shut(&gate, streams[i]);
        OK(aclrtMemcpyAsync(device, LEN, late, LEN, H2D, streams[i]));
        OK(aclrtMemcpy(device, LEN, early, LEN, H2D));
        HOLDS(device, 21, LEN);
        gate_open(&gate);
        OK(aclrtSynchronizeStream(streams[i]));
        HOLDS(device, 22, LEN);
    }
    OK(aclrtDestroyStream(streams[1]));
    OK(aclrtFreeHost(early));
    OK(aclrtFreeHost(late));
    OK(aclrtFree(device));
}

static void *without_a_context(void *device)
{
    unsigned char byte = 0;
    CHECK(aclrtMemcpy(&byte, 1, device, 1, D2H), ACL_ERROR_RT_CONTEXT_NULL);
    return NULL;
}

static void what_cannot_be_done_is_refused(void)
{
    unsigned char *host = pageable(30, LEN), *untouched = pageable(30, LEN);
    unsigned char *device = device_memory(31, LEN), *gone = device_memory(32, LEN);
    unsigned char *page = (unsigned char *)mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    THAT(page != MAP_FAILED);
    OK(aclrtFree(gone));

    CHECK(aclrtMemcpy(NULL, LEN, host, LEN, H2D), ACL_ERROR_INVALID_PARAM);
    CHECK(aclrtMemcpy(device, LEN, NULL, LEN, H2D), ACL_ERROR_INVALID_PARAM);
    CHECK(aclrtMemcpy(NULL, 0, host, 0, H2D), ACL_ERROR_INVALID_PARAM);
    CHECK(aclrtMemcpy(device, LEN - 1, host, LEN, H2D), ACL_ERROR_RT_PARAM_INVALID);
    CHECK(aclrtMemcpy(device + LEN, 1000, host, 1000, H2D), ACL_ERROR_RT_PARAM_INVALID);
    CHECK(aclrtMemcpy(host, LEN, device + LEN, 1000, D2H), ACL_ERROR_RT_PARAM_INVALID);
    CHECK(aclrtMemcpy(device, SIZE_MAX, host, SIZE_MAX, H2D), ACL_ERROR_RT_PARAM_INVALID);
    CHECK(aclrtMemcpy(gone, LEN, host, LEN, H2D), ACL_ERROR_RT_PARAM_INVALID);
    CHECK(aclrtMemcpy(host, LEN, gone, LEN, D2H), ACL_ERROR_RT_PARAM_INVALID);
    CHECK(aclrtMemcpy(device, LEN, LOW_GARBAGE, LEN, H2D), ACL_ERROR_RT_PARAM_INVALID);
    CHECK(aclrtMemcpy(device, LEN, HIGH_GARBAGE, LEN, H2D), ACL_ERROR_RT_PARAM_INVALID);
    CHECK(aclrtMemcpy(LOW_GARBAGE, LEN, device, LEN, D2H), ACL_ERROR_RT_PARAM_INVALID);
    CHECK(aclrtMemcpy(HIGH_GARBAGE, LEN, device, LEN, D2H), ACL_ERROR_RT_PARAM_INVALID);
    // Memory that is there but may not be written is as bad as memory that is not there.
    CHECK(aclrtMemcpy(page, 100, device, 100, D2H), ACL_ERROR_RT_PARAM_INVALID);
    in_thread(without_a_context, device);

    HOLDS(device, 31, LEN);
    SAME(host, untouched, LEN);
    FILLED(page, 0, 4096);
    munmap(page, 4096);
    free(host);
    free(untouched);
    OK(aclrtFree(device));
}

static void two_devices_need_peer_access(void)
{
    unsigned char *here, *there;
    int32_t can = 0;
    if (device_count() < 2) {
        return;
    }
    OK(aclrtSetDevice(1));
    there = device_memory(41, LEN);
    OK(aclrtSetDevice(0));
    here = device_memory(40, LEN);

    CHECK(aclrtMemcpy(there, LEN, here, LEN, D2D), ACL_ERROR_RT_PARAM_INVALID);
    HOLDS(there, 41, LEN);
    OK(aclrtDeviceCanAccessPeer(&can, 0, 1));
    THAT(can == 1);
    OK(aclrtDeviceEnablePeerAccess(1, 0));
    OK(aclrtMemcpy(there, LEN, here, LEN, D2D));
    HOLDS(there, 40, LEN);
    OK(aclrtDeviceDisablePeerAccess(1));
    CHECK(aclrtMemcpy(there, LEN, here, LEN, D2D), ACL_ERROR_RT_PARAM_INVALID);

    OK(aclrtFree(here));
    OK(aclrtFree(there));
    OK(aclrtResetDevice(1));
    OK(aclrtResetDevice(0));
}

int main(void)
{
    begin();
    every_direction();
    the_kind_has_no_effect();
    busy_streams_are_not_waited_for();
    what_cannot_be_done_is_refused();
    two_devices_need_peer_access();
    return finish("aclrtMemcpy");
}
