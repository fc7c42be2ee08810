// proves: X9
// Devices are counted, set, reset and waited for as documented, peers are opened one way at a time, and
// aclInit and aclFinalize keep count.
#include "kit.h"

enum { LEN = 4096 };

static struct gate gate = GATE;

static void starting_and_stopping(void)
{
    char path[] = "/tmp/ferry-acl-XXXXXX";
    int file = mkstemp(path), i;
    static const char *bad[] = {"", "{", "not json", "{\"a\": }"};
    THAT(file >= 0);
    CHECK(aclFinalize(), ACL_ERROR_REPEAT_FINALIZE);
    CHECK(aclInit("/nowhere/acl.json"), ACL_ERROR_INVALID_FILE);
    for (i = 0; i < 4; i++) {
        THAT(ftruncate(file, 0) == 0 && pwrite(file, bad[i], strlen(bad[i]), 0) == (ssize_t)strlen(bad[i]));
        CHECK(aclInit(path), ACL_ERROR_PARSE_FILE);
    }
    THAT(ftruncate(file, 0) == 0 && pwrite(file, "{\"dump\": {}}", 12, 0) == 12);
    OK(aclInit(path));
    CHECK(aclInit(NULL), ACL_ERROR_REPEAT_INITIALIZE);
    // However often it was started, once is enough to stop.
    OK(aclFinalize());
    CHECK(aclFinalize(), ACL_ERROR_REPEAT_FINALIZE);
    close(file);
    unlink(path);
}

static void who_is_there(void)
{
    aclrtRunMode mode = ACL_DEVICE;
    uint32_t count = 0;
    THAT(strncmp(aclrtGetSocName(), "Ascend", 6) == 0);
    OK(aclrtGetRunMode(&mode));
    THAT(mode == ACL_HOST);
    CHECK(aclrtGetRunMode(NULL), ACL_ERROR_INVALID_PARAM);
    OK(aclrtGetDeviceCount(&count));
    THAT(count >= 1);
    CHECK(aclrtGetDeviceCount(NULL), ACL_ERROR_INVALID_PARAM);
}

static void setting_and_resetting(void)
{
    int32_t device = -1;
    int32_t past = (int32_t)device_count();
    aclrtStream stream = NULL;
    CHECK(aclrtGetDevice(&device), ACL_ERROR_RT_CONTEXT_NULL);
    CHECK(aclrtResetDevice(0), ACL_ERROR_RT_CONTEXT_NULL);
    CHECK(aclrtSetDevice(-1), ACL_ERROR_RT_INVALID_DEVICEID);
    CHECK(aclrtSetDevice(past), ACL_ERROR_RT_INVALID_DEVICEID);
    CHECK(aclrtResetDevice(past), ACL_ERROR_RT_INVALID_DEVICEID);
    CHECK(aclrtGetDevice(&device), ACL_ERROR_RT_CONTEXT_NULL);

    OK(aclrtSetDevice(0));
    OK(aclrtSetDevice(0));
    OK(aclrtGetDevice(&device));
    CHECK(device, 0);
    CHECK(aclrtGetDevice(NULL), ACL_ERROR_INVALID_PARAM);
    OK(aclrtCreateStream(&stream));
    // Set twice, it takes two resets.
    OK(aclrtResetDevice(0));
    OK(aclrtSynchronizeStream(stream));
    // The last one waits, and takes the streams of the default context with it.
    WAITS(stream, aclrtResetDevice(0));
    CHECK(aclrtGetDevice(&device), ACL_ERROR_RT_CONTEXT_NULL);
    CHECK(aclrtSynchronizeStream(NULL), ACL_ERROR_RT_CONTEXT_NULL);
    CHECK(aclrtResetDevice(0), ACL_ERROR_RT_CONTEXT_NULL);
    OK(aclrtSetDevice(0));
    CHECK(aclrtSynchronizeStream(stream), ACL_ERROR_RT_INVALID_HANDLE);
    OK(aclrtCreateStream(&stream));
    OK(aclrtSynchronizeStream(stream));
    OK(aclrtDestroyStream(stream));
}

// Device memory is the caller's to free: a reset leaves it.
static void memory_survives_a_reset(void)
{
    unsigned char *device = device_memory(1, LEN);
    OK(aclrtResetDevice(0));
    OK(aclrtSetDevice(0));
    HOLDS(device, 1, LEN);
    OK(aclrtFree(device));
}

static void waiting_for_all(void)
{
    aclrtContext mine = NULL, other = NULL;
    aclrtStream stream = NULL;
    unsigned char *from = pinned(5, LEN), *device = device_memory(6, LEN);
    OK(aclrtGetCurrentContext(&mine));
    OK(aclrtCreateContext(&other, 0));
    OK(aclrtCreateStream(&stream));
    OK(aclrtMemcpyAsync(device, LEN, from, LEN, H2D, stream));
    WAITS(stream, aclrtSynchronizeDevice());
    HOLDS(device, 5, LEN);
    // From the device's default context too, though the stream is not of it.
    WAITS(stream, aclrtSetCurrentContext(mine) || aclrtSynchronizeDevice());
    OK(aclrtSetCurrentContext(other));
    OK(aclrtDestroyStream(stream));
    OK(aclrtSetCurrentContext(mine));
    OK(aclrtDestroyContext(other));
    WAITS(NULL, aclrtSynchronizeDevice());
    OK(aclrtFreeHost(from));
    OK(aclrtFree(device));

    if (device_count() > 1) {
        // Another device is no concern.
        OK(aclrtCreateContext(&other, 1));
        gate_shut(&gate, NULL);
        OK(aclrtSetCurrentContext(mine));
        OK(aclrtSynchronizeDevice());
        gate_open(&gate);
        OK(aclrtSetCurrentContext(other));
        OK(aclrtSynchronizeDevice());
        OK(aclrtSetCurrentContext(mine));
        OK(aclrtDestroyContext(other));
    }
}

static void peers(void)
{
    aclrtContext mine = NULL, far = NULL;
    unsigned char *here, *there;
    int32_t can = -1;
    if (device_count() < 2) {
        return;
    }
    OK(aclrtDeviceCanAccessPeer(&can, 0, 1));
    CHECK(can, 1);
    CHECK(aclrtDeviceCanAccessPeer(NULL, 0, 1), ACL_ERROR_INVALID_PARAM);
    REFUSED(aclrtDeviceCanAccessPeer(&can, 0, 0));
    OK(aclrtDeviceEnablePeerAccess(0, 0)); // itself: nothing happens
    REFUSED(aclrtDeviceDisablePeerAccess(0));
    REFUSED(aclrtDeviceEnablePeerAccess(1, 1));
    REFUSED(aclrtDeviceEnablePeerAccess(99, 0));

    here = device_memory(10, LEN);
    OK(aclrtGetCurrentContext(&mine));
    OK(aclrtCreateContext(&far, 1));
    there = device_memory(11, LEN);
    OK(aclrtSetCurrentContext(mine));
    // Opened from 0 to 1: 0 may copy both ways, 1 may not.
    CHECK(aclrtMemcpy(here, LEN, there, LEN, D2D), ACL_ERROR_RT_PARAM_INVALID);
    OK(aclrtDeviceEnablePeerAccess(1, 0));
    OK(aclrtMemcpy(here, LEN, there, LEN, D2D));
    HOLDS(here, 11, LEN);
    OK(aclrtSetCurrentContext(far));
    CHECK(aclrtMemcpy(there, LEN, here, LEN, D2D), ACL_ERROR_RT_PARAM_INVALID);
    OK(aclrtDeviceEnablePeerAccess(0, 0));
    OK(aclrtMemset(here, LEN, 7, LEN));
    OK(aclrtMemcpy(there, LEN, here, LEN, D2D));
    OK(aclrtDeviceDisablePeerAccess(0));
    OK(aclrtSetCurrentContext(mine));
    OK(aclrtMemcpy(there, LEN, here, LEN, D2D));
    OK(aclrtDeviceDisablePeerAccess(1));
    CHECK(aclrtMemcpy(there, LEN, here, LEN, D2D), ACL_ERROR_RT_PARAM_INVALID);
    OK(aclrtFree(here));
    OK(aclrtFree(there));
    OK(aclrtDestroyContext(far));
}

int main(void)
{
    starting_and_stopping();
    OK(aclInit(NULL));
    who_is_there();
    setting_and_resetting();
    memory_survives_a_reset();
    waiting_for_all();
    peers();
    return finish("devices");
}
