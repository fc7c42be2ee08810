/* Submits page-locked copies to one stream, for `cargo xtask count`, which counts the instructions of
 * aclrtMemcpyAsync. The copies go to as many allocations as asked for, in turn, so that the cost of finding
 * one shows. A host function holds the stream meanwhile, so that what is counted is submitting and nothing
 * else; it is let go at the end, and the last bytes are checked so that the copies are known to be real. */
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "acl/acl.h"

#define BYTES 64

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
    long blocks = argc > 2 ? atol(argv[2]) : 1;
    char *host = NULL, *back = NULL, **devices = malloc(blocks * sizeof *devices);
    aclrtStream stream = NULL;

    sem_init(&held, 0, 0);
    sem_init(&let_go, 0, 0);
    CHECK(aclInit(NULL));
    CHECK(aclrtSetDevice(0));
    CHECK(aclrtCreateStream(&stream));
    CHECK(aclrtMallocHost((void **)&host, BYTES));
    CHECK(aclrtMallocHost((void **)&back, BYTES));
    for (long i = 0; i < blocks; i++) {
        CHECK(aclrtMalloc((void **)&devices[i], BYTES, ACL_MEM_MALLOC_HUGE_FIRST));
    }
    for (int i = 0; i < BYTES; i++) {
        host[i] = (char)(i * 7 + 1);
    }

    CHECK(aclrtLaunchHostFunc(stream, hold, NULL));
    sem_wait(&held);
    for (long i = 0; i < submits; i++) {
        char *device = devices[i * 7919 % blocks];
        CHECK(aclrtMemcpyAsync(device, BYTES, host, BYTES, ACL_MEMCPY_HOST_TO_DEVICE, stream));
    }
    sem_post(&let_go);
    CHECK(aclrtSynchronizeStream(stream));

    for (long i = 0; i < submits && i < blocks; i += 97) {
        memset(back, 0, BYTES);
        CHECK(aclrtMemcpy(back, BYTES, devices[i * 7919 % blocks], BYTES, ACL_MEMCPY_DEVICE_TO_HOST));
        if (memcmp(host, back, BYTES) != 0) {
            fprintf(stderr, "the bytes of copy %ld differ\n", i);
            return 1;
        }
    }
    for (long i = 0; i < blocks; i++) {
        CHECK(aclrtFree(devices[i]));
    }
    free(devices);
    CHECK(aclrtFreeHost(back));
    CHECK(aclrtFreeHost(host));
    CHECK(aclrtDestroyStream(stream));
    CHECK(aclrtResetDevice(0));
    CHECK(aclFinalize());
    return 0;
}
