/* Executes a captured graph of copies within a device, for `cargo xtask count`, which counts the instructions
 * of aclmdlRIExecuteAsync. With 1 as the second argument no copy touches what another one writes, and they
 * are submitted as one op; with 2 each writes what the next one reads, and they are submitted one by one. A
 * host function holds the stream meanwhile, so that what is counted is submitting and nothing else; it is
 * let go at the end, and the bytes are checked so that the copies are known to be real. */
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "acl/acl.h"

#define BYTES 64
#define COPIES 1024

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
    long executions = argc > 1 ? atol(argv[1]) : 10;
    int is_chain = argc > 2 && atol(argv[2]) == 2;
    char *host = NULL, *from = NULL, *to = NULL;
    char back[BYTES];
    aclrtStream stream = NULL;
    aclmdlRI model = NULL;

    sem_init(&held, 0, 0);
    sem_init(&let_go, 0, 0);
    CHECK(aclInit(NULL));
    CHECK(aclrtSetDevice(0));
    CHECK(aclrtCreateStream(&stream));
    CHECK(aclrtMallocHost((void **)&host, 2 * COPIES * BYTES));
    CHECK(aclrtMalloc((void **)&from, 2 * COPIES * BYTES, ACL_MEM_MALLOC_HUGE_FIRST));
    CHECK(aclrtMalloc((void **)&to, 2 * COPIES * BYTES, ACL_MEM_MALLOC_HUGE_FIRST));
    for (long i = 0; i < 2 * COPIES * BYTES; i++) {
        host[i] = (char)(i * 7 + i / BYTES);
    }
    CHECK(aclrtMemcpy(from, 2 * COPIES * BYTES, host, 2 * COPIES * BYTES, ACL_MEMCPY_HOST_TO_DEVICE));

    CHECK(aclmdlRICaptureBegin(stream, ACL_MODEL_RI_CAPTURE_MODE_GLOBAL));
    for (long i = 0; i < COPIES; i++) {
        /* Every second place, so that no copy goes on where another one ends. */
        char *source = is_chain ? (i % 2 ? to : from) : from + 2 * i * BYTES;
        char *target = is_chain ? (i % 2 ? from : to) : to + 2 * (COPIES - 1 - i) * BYTES;
        CHECK(aclrtMemcpyAsync(target, BYTES, source, BYTES, ACL_MEMCPY_INNER_DEVICE_TO_DEVICE, stream));
    }
    CHECK(aclmdlRICaptureEnd(stream, &model));

    CHECK(aclrtLaunchHostFunc(stream, hold, NULL));
    sem_wait(&held);
    for (long i = 0; i < executions; i++) {
        CHECK(aclmdlRIExecuteAsync(model, stream));
    }
    sem_post(&let_go);
    CHECK(aclrtSynchronizeStream(stream));

    for (long i = 0; i < (is_chain ? 1 : COPIES); i++) {
        char *source = is_chain ? host : host + 2 * i * BYTES;
        char *target = is_chain ? to : to + 2 * (COPIES - 1 - i) * BYTES;
        CHECK(aclrtMemcpy(back, BYTES, target, BYTES, ACL_MEMCPY_DEVICE_TO_HOST));
        if (memcmp(source, back, BYTES) != 0) {
            fprintf(stderr, "the bytes of copy %ld differ\n", i);
            return 1;
        }
    }
    CHECK(aclmdlRIDestroy(model));
    CHECK(aclrtFree(to));
    CHECK(aclrtFree(from));
    CHECK(aclrtFreeHost(host));
    CHECK(aclrtDestroyStream(stream));
    CHECK(aclrtResetDevice(0));
    CHECK(aclFinalize());
    return 0;
}
