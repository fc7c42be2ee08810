// A thread that ends, and a program that ends, still clean up: memory is freed in the destructor of a thread
// key and in an atexit handler, where a stream can be synchronised and destroyed too. Nothing leaks. And
// arrays of a batch need not be aligned.
#include "kit.h"

enum { LEN = 1 << 20, THREADS = 3 };

static pthread_key_t key;
static aclrtStream last_stream;
static unsigned char *last_memory;

static void free_in_destructor(void *memory)
{
    OK(aclrtFree(memory));
}

static void *allocate_and_end(void *unused)
{
    void *memory = NULL;
    (void)unused;
    OK(aclrtSetDevice(0));
    // Before the first call of the library in this thread or after it: both orders of keys are met, over the
    // threads.
    OK(aclrtMalloc(&memory, LEN, ACL_MEM_MALLOC_HUGE_FIRST));
    THAT(pthread_setspecific(key, memory) == 0);
    return NULL;
}

static size_t free_bytes(void)
{
    size_t left = 0, total = 0;
    OK(aclrtGetMemInfo(ACL_HBM_MEM, &left, &total));
    return left;
}

static void at_exit(void)
{
    OK(aclrtSynchronizeStream(last_stream));
    OK(aclrtFree(last_memory));
    OK(aclrtDestroyStream(last_stream));
    OK(aclrtResetDevice(0));
    OK(aclFinalize());
}

static void misaligned_batch(unsigned char *device, unsigned char *host)
{
    unsigned char room[8][64];
    void *dst = device, *src = host;
    size_t size = 256, zero = 0, fail = 0;
    aclrtMemcpyBatchAttr attr;
    memset(&attr, 0, sizeof attr);
    attr.dstLoc.type = ACL_MEM_LOCATION_TYPE_DEVICE;
    attr.srcLoc.type = ACL_MEM_LOCATION_TYPE_HOST;
    memcpy(room[0] + 1, &dst, sizeof dst);
    memcpy(room[1] + 1, &size, sizeof size);
    memcpy(room[2] + 1, &src, sizeof src);
    memcpy(room[3] + 1, &attr, sizeof attr);
    memcpy(room[4] + 1, &zero, sizeof zero);
    OK(aclrtMemcpyBatch((void **)(void *)(room[0] + 1), (size_t *)(void *)(room[1] + 1),
                        (void **)(void *)(room[2] + 1), (size_t *)(void *)(room[1] + 1), 1,
                        (aclrtMemcpyBatchAttr *)(void *)(room[3] + 1), (size_t *)(void *)(room[4] + 1), 1,
                        &fail));
    THAT(fail == SIZE_MAX);
}

int main(void)
{
    pthread_t thread;
    unsigned char *host, got[256];
    size_t before;
    int i;
    begin();
    before = free_bytes();
    THAT(pthread_key_create(&key, free_in_destructor) == 0);
    for (i = 0; i < THREADS; i++) {
        THAT(pthread_create(&thread, NULL, allocate_and_end, NULL) == 0);
        THAT(pthread_join(thread, NULL) == 0);
    }
    THAT(free_bytes() == before);

    host = pinned(1, LEN), last_memory = device_memory(2, LEN);
    misaligned_batch(last_memory, host);
    peek(got, last_memory, sizeof got);
    SAME(got, host, sizeof got);

    OK(aclrtCreateStream(&last_stream));
    OK(aclrtMemcpyAsync(last_memory, LEN, host, LEN, H2D, last_stream));
    THAT(atexit(at_exit) == 0);
    printf("ok: threads and the program clean up behind themselves\n");
    return 0;
}
