/* Submits page-locked copies to one stream, for `cargo xtask count`, which counts the instructions of aclrtMemcpyAsync.
 * A host function holds the stream meanwhile, so that what is counted is submitting and nothing else; it is let go at
 * the end, and the last bytes are checked so that the copies are known to be real. */
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "acl/acl.h"

#define BYTES 64
#define SLOTS 16

#define CHECK(call)                                                            \
    do {                                                                       \
        aclError code = (call);                                                \
        if (code != ACL_SUCCESS) {                                             \
            const char *why = aclGetRecentErrMsg();                            \
            fprintf(stderr, "%s: %d %s\n", #call, code, why ? why : "");       \
            return 1;                                                          \
        }                                                                      \
    } while (0)

static sem_t held, let_go;

static void hold(void *unused)
{
    (void)unused;
    sem_post(&held);
    sem_wait(&let_go);
}

int main(int argc, char **argv)
{
    long submits = argc > 1 ? atol(argv[1]) : 1000;
    char *host = NULL, *device = NULL, *back = NULL;
    aclrtStream stream = NULL;

    sem_init(&held, 0, 0);
    sem_init(&let_go, 0, 0);
    CHECK(aclInit(NULL));
    CHECK(aclrtSetDevice(0));
    CHECK(aclrtCreateStream(&stream));
    CHECK(aclrtMallocHost((void **)&host, SLOTS * BYTES));
    CHECK(aclrtMallocHost((void **)&back, SLOTS * BYTES));
    CHECK(aclrtMalloc((void **)&device, SLOTS * BYTES, ACL_MEM_MALLOC_HUGE_FIRST));
    for (int i = 0; i < SLOTS * BYTES; i++) {
        host[i] = (char)(i * 7);
    }
    memset(back, 0, SLOTS * BYTES);

    CHECK(aclrtLaunchHostFunc(stream, hold, NULL));
    sem_wait(&held);
    for (long i = 0; i < submits; i++) {
        long at = (i % SLOTS) * BYTES;
        CHECK(aclrtMemcpyAsync(device + at, BYTES, host + at, BYTES, ACL_MEMCPY_HOST_TO_DEVICE, stream));
    }
    sem_post(&let_go);
    CHECK(aclrtSynchronizeStream(stream));

    CHECK(aclrtMemcpy(back, SLOTS * BYTES, device, SLOTS * BYTES, ACL_MEMCPY_DEVICE_TO_HOST));
    if (memcmp(host, back, SLOTS * BYTES) != 0) {
        fprintf(stderr, "the copied bytes differ\n");
        return 1;
    }
    CHECK(aclrtFree(device));
    CHECK(aclrtFreeHost(back));
    CHECK(aclrtFreeHost(host));
    CHECK(aclrtDestroyStream(stream));
    CHECK(aclrtResetDevice(0));
    CHECK(aclFinalize());
    return 0;
}
