/* Submits batches of page-locked copies to one stream, for `cargo xtask count`, which counts the
 * instructions of aclrtMemcpyBatchAsync. The copies lie in as many device allocations as asked for, in turn,
 * and none goes on where the one before it ended, so that every piece is looked up, checked and listed. A
 * host function holds the stream meanwhile, so that what is counted is submitting and nothing else; it is
 * let go at the end, and the bytes are checked so that the copies are known to be real. */
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "acl/acl.h"

#define BYTES 64
#define PIECES 4096

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
static void *dsts[PIECES], *srcs[PIECES];
static size_t sizes[PIECES];

static void hold(void *unused)
{
    (void)unused;
    sem_post(&held);
    sem_wait(&let_go);
}

int main(int argc, char **argv)
{
    long submits = argc > 1 ? atol(argv[1]) : 10;
    long blocks = argc > 2 ? atol(argv[2]) : 1;
    char *host = NULL, *back = NULL, **devices = malloc(blocks * sizeof *devices);
    aclrtStream stream = NULL;
    aclrtMemcpyBatchAttr attr;
    size_t first = 0, fail = 0;

    sem_init(&held, 0, 0);
    sem_init(&let_go, 0, 0);
    CHECK(aclInit(NULL));
    CHECK(aclrtSetDevice(0));
    CHECK(aclrtCreateStream(&stream));
    CHECK(aclrtMallocHost((void **)&host, PIECES * BYTES));
    CHECK(aclrtMallocHost((void **)&back, PIECES * BYTES));
    for (long i = 0; i < blocks; i++) {
        CHECK(aclrtMalloc((void **)&devices[i], PIECES * BYTES, ACL_MEM_MALLOC_HUGE_FIRST));
    }
    for (long i = 0; i < PIECES * BYTES; i++) {
        host[i] = (char)(i * 7 + i / BYTES);
    }
    for (long i = 0; i < PIECES; i++) {
        dsts[i] = devices[i % blocks] + i * BYTES;
        srcs[i] = host + i * 2531 % PIECES * BYTES;
        sizes[i] = BYTES;
    }
    memset(&attr, 0, sizeof attr);
    attr.dstLoc.type = ACL_MEM_LOCATION_TYPE_DEVICE;
    attr.srcLoc.type = ACL_MEM_LOCATION_TYPE_HOST;

    CHECK(aclrtLaunchHostFunc(stream, hold, NULL));
    sem_wait(&held);
    for (long i = 0; i < submits; i++) {
        CHECK(aclrtMemcpyBatchAsync(dsts, sizes, srcs, sizes, PIECES, &attr, &first, 1, &fail, stream));
    }
    sem_post(&let_go);
    CHECK(aclrtSynchronizeStream(stream));

    for (long i = 0; i < PIECES; i++) {
        CHECK(aclrtMemcpy(back, BYTES, dsts[i], BYTES, ACL_MEMCPY_DEVICE_TO_HOST));
        if (memcmp(srcs[i], back, BYTES) != 0) {
            fprintf(stderr, "the bytes of piece %ld differ\n", i);
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
