// What aclGetRecentErrMsg says: nothing when nothing failed, otherwise the function, the addresses and what
// they belong to; each thread hears of its own calls, once, the newest first.
#include "kit.h"

#include <ctype.h>

enum { LEN = 4096 };

// The message of the last refused call, in lower case, as long as it is needed.
static char said[16384];

static void listen(void)
{
    const char *message = aclGetRecentErrMsg();
    size_t i;
    THAT(message != NULL);
    for (i = 0; message[i] != 0 && i + 1 < sizeof said; i++) {
        said[i] = (char)tolower((unsigned char)message[i]);
    }
    said[i] = 0;
}

#define SAYS(words) says(__FILE__, __LINE__, words)

static void says(const char *file, int line, const char *words)
{
    if (strstr(said, words) == NULL) {
        fprintf(stderr, "%s:%d: expected \"%s\" in the message, got\n%s\n", file, line, words, said);
        exit(1);
    }
}

static void says_address(const void *address)
{
    char hex[32];
    snprintf(hex, sizeof hex, "0x%llx", (unsigned long long)(uintptr_t)address);
    SAYS(hex);
}

static void *another_thread(void *arg)
{
    THAT(aclGetRecentErrMsg() == NULL);
    CHECK(aclrtMemcpy(arg, 1, arg, 1, D2D), ACL_ERROR_RT_CONTEXT_NULL);
    listen();
    SAYS("aclrtmemcpy");
    SAYS("context");
    return NULL;
}

int main(void)
{
    unsigned char *device, *other, *locked, *plain, *gone;
    aclrtStream stream = NULL;
    begin();
    THAT(aclGetRecentErrMsg() == NULL);
    OK(aclrtCreateStream(&stream));
    device = device_memory(1, LEN), other = device_memory(2, LEN), gone = device_memory(3, LEN);
    locked = pinned(4, LEN), plain = pageable(5, LEN);
    OK(aclrtFree(gone));
    THAT(aclGetRecentErrMsg() == NULL);

    // A kind that contradicts the addresses: both of them, what they are, and the kind that would do.
    CHECK(aclrtMemcpyAsync(device, LEN, locked, LEN, D2H, stream), ACL_ERROR_RT_PARAM_INVALID);
    listen();
    SAYS("aclrtmemcpyasync");
    says_address(device);
    says_address(locked);
    SAYS("device 0");
    SAYS("4096");
    SAYS("page-locked");
    SAYS("host_to_device");
    // Told once.
    THAT(aclGetRecentErrMsg() == NULL);

    // Too long for its allocation.
    CHECK(aclrtMemcpyAsync(device, 9999, locked, 9999, H2D, stream), ACL_ERROR_RT_PARAM_INVALID);
    listen();
    SAYS("aclrtmemcpyasync");
    SAYS("9999");
    says_address(device);

    // Freed.
    CHECK(aclrtMemcpy(gone, LEN, plain, LEN, H2D), ACL_ERROR_RT_PARAM_INVALID);
    listen();
    SAYS("aclrtmemcpy");
    says_address(gone);
    SAYS("freed");

    // Unknown.
    CHECK(aclrtMemcpy(device, LEN, LOW_GARBAGE, LEN, H2D), ACL_ERROR_RT_PARAM_INVALID);
    listen();
    says_address(LOW_GARBAGE);

    // Names of arguments.
    CHECK(aclrtMemcpy(NULL, LEN, plain, LEN, H2D), ACL_ERROR_INVALID_PARAM);
    listen();
    SAYS("dst");
    CHECK(aclrtMemcpy2dAsync(device, 10, locked, 64, 11, 2, H2D, stream), ACL_ERROR_RT_PARAM_INVALID);
    listen();
    SAYS("aclrtmemcpy2dasync");
    SAYS("dpitch");
    SAYS("width");
    CHECK(aclrtMemcpy2dAsync(device, 1, locked, 1, 1, 5242881, H2D, stream), ACL_ERROR_RT_PARAM_INVALID);
    listen();
    SAYS("height");
    SAYS("5242880");

    // Handles.
    CHECK(aclrtSynchronizeStream((aclrtStream)(uintptr_t)0x1234), ACL_ERROR_RT_INVALID_HANDLE);
    listen();
    SAYS("aclrtsynchronizestream");
    SAYS("0x1234");

    // Several: the newest is on top.
    CHECK(aclrtFree(plain), ACL_ERROR_RT_PARAM_INVALID);
    CHECK(aclrtMallocHost(NULL, 1), ACL_ERROR_INVALID_PARAM);
    listen();
    SAYS("aclrtmallochost");
    THAT(strstr(said, "aclrtfree") == NULL || strstr(said, "aclrtmallochost") < strstr(said, "aclrtfree"));
    while (aclGetRecentErrMsg() != NULL) {
    }

    // Work that fails when it runs is told at the synchronise, and names the copy.
    {
        size_t size = 0;
        void *desc = NULL;
        OK(aclrtGetMemcpyDescSize(INNER, &size));
        OK(aclrtMalloc(&desc, size, ACL_MEM_MALLOC_NORMAL_ONLY));
        OK(aclrtMemset(desc, size, 0xee, size));
        OK(aclrtMemcpyAsyncWithDesc(desc, INNER, stream));
        CHECK(aclrtSynchronizeStream(stream), ACL_ERROR_RT_PARAM_INVALID);
        listen();
        SAYS("aclrtmemcpyasyncwithdesc");
        says_address(desc);
        OK(aclrtFree(desc));
    }

    // Every thread for itself.
    CHECK(aclrtFree(plain), ACL_ERROR_RT_PARAM_INVALID);
    in_thread(another_thread, device);
    listen();
    SAYS("aclrtfree");
    says_address(plain);
    THAT(aclGetRecentErrMsg() == NULL);

    HOLDS(device, 1, LEN);
    HOLDS(other, 2, LEN);
    OK(aclrtDestroyStream(stream));
    OK(aclrtFree(device));
    OK(aclrtFree(other));
    OK(aclrtFreeHost(locked));
    free(plain);
    return finish("messages");
}
