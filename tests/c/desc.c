// proves: R70 R71 R72 R73 R74 R75 R76 R77
// A copy by descriptor: the descriptor is plain bytes in device memory, read when its task runs, and one that
// was never set fails there and touches nothing.
#include "kit.h"

enum { LEN = 3000 };

typedef aclError (*copy_fn)(void *desc, aclrtMemcpyKind kind, aclrtStream stream);
static const copy_fn copy = aclrtMemcpyAsyncWithDesc;

static struct gate gate = GATE;
static aclrtStream stream;
static size_t desc_size;

static void *new_desc(void)
{
    void *desc = NULL;
    OK(aclrtMalloc(&desc, desc_size, ACL_MEM_MALLOC_NORMAL_ONLY));
    return desc;
}

// The five documented steps.
static void the_documented_order(void)
{
    unsigned char *a, *b, *c;
    void *desc;
    OK(aclrtGetMemcpyDescSize(INNER, &desc_size));
    THAT(desc_size > 0);
    desc = new_desc();
    a = device_memory(1, LEN), b = device_memory(2, LEN), c = device_memory(3, LEN);
    // The source comes first here.
    OK(aclrtSetMemcpyDesc(desc, INNER, a, b, LEN, NULL));
    gate_shut(&gate, stream);
    OK(copy(desc, INNER, stream));
    HOLDS(b, 2, LEN);
    gate_open(&gate);
    OK(aclrtSynchronizeStream(stream));
    HOLDS(b, 1, LEN);
    HOLDS(a, 1, LEN);

    // Used again, with new content behind the same addresses, and then for other addresses.
    OK(aclrtMemcpy(a, LEN, c, LEN, D2D));
    OK(copy(desc, INNER, stream));
    OK(aclrtSynchronizeStream(stream));
    HOLDS(b, 3, LEN);
    OK(aclrtMemset(c, LEN, 0, LEN));
    OK(aclrtSetMemcpyDesc(desc, INNER, a + 1, c + 2, 100, NULL));
    OK(copy(desc, INNER, NULL));
    OK(aclrtSynchronizeStream(NULL));
    {
        unsigned char got[LEN], want[LEN], from[LEN];
        pattern(from, 3, LEN);
        memset(want, 0, LEN);
        memcpy(want + 2, from + 1, 100);
        peek(got, c, LEN);
        SAME(got, want, LEN);
    }
    OK(aclrtFree(desc));
    OK(aclrtFree(a));
    OK(aclrtFree(b));
    OK(aclrtFree(c));
}

// What the descriptor says when the task runs counts, not what it said when the task was submitted.
static void it_is_read_when_it_runs(void)
{
    unsigned char *a = device_memory(10, LEN), *b = device_memory(11, LEN), *c = device_memory(12, LEN);
    void *desc = new_desc(), *second = new_desc();
    OK(aclrtSetMemcpyDesc(desc, INNER, a, b, LEN, NULL));
    OK(aclrtSetMemcpyDesc(second, INNER, a, c, LEN, NULL));
    gate_shut(&gate, stream);
    // A task of the stream writes it: descriptors may be copied like other bytes.
    OK(aclrtMemcpyAsync(desc, desc_size, second, desc_size, D2D, stream));
    OK(copy(desc, INNER, stream));
    gate_open(&gate);
    OK(aclrtSynchronizeStream(stream));
    HOLDS(b, 11, LEN);
    HOLDS(c, 10, LEN);

    // Set again while it waits in a stream.
    OK(aclrtSetMemcpyDesc(desc, INNER, a, c, LEN, NULL));
    gate_shut(&gate, stream);
    OK(copy(desc, INNER, stream));
    OK(aclrtSetMemcpyDesc(desc, INNER, a, b, LEN, NULL));
    gate_open(&gate);
    OK(aclrtSynchronizeStream(stream));
    HOLDS(b, 10, LEN);
    OK(aclrtFree(desc));
    OK(aclrtFree(second));
    OK(aclrtFree(a));
    OK(aclrtFree(b));
    OK(aclrtFree(c));
}

static void one_never_set_fails_when_it_runs(void)
{
    static const int fills[] = {0, 0xab, 0xff};
    unsigned char *a = device_memory(20, LEN);
    void *desc = new_desc();
    size_t i;
    for (i = 0; i < sizeof fills / sizeof fills[0]; i++) {
        OK(aclrtMemset(desc, desc_size, fills[i], desc_size));
        OK(copy(desc, INNER, stream));
        CHECK(aclrtSynchronizeStream(stream), ACL_ERROR_RT_PARAM_INVALID);
        // Told once; the stream goes on.
        OK(aclrtSynchronizeStream(stream));
    }
    // Memory that was freed after the descriptor was written.
    {
        unsigned char *gone = device_memory(21, LEN);
        OK(aclrtSetMemcpyDesc(desc, INNER, gone, a, LEN, NULL));
        OK(aclrtFree(gone));
        OK(copy(desc, INNER, stream));
        CHECK(aclrtSynchronizeStream(stream), ACL_ERROR_RT_PARAM_INVALID);
    }
    HOLDS(a, 20, LEN);
    OK(aclrtFree(desc));
    OK(aclrtFree(a));
}

static void bad_calls_are_refused(void)
{
    unsigned char *a = device_memory(30, LEN), *b = device_memory(31, LEN), *host = pinned(32, LEN);
    void *desc = new_desc();
    size_t size = 0;
    int kind;
    OK(aclrtSetMemcpyDesc(desc, INNER, a, b, LEN, NULL));
    for (kind = -1; kind <= 8; kind++) {
        if (kind != 6) {
            CHECK(aclrtGetMemcpyDescSize((aclrtMemcpyKind)kind, &size), ACL_ERROR_INVALID_PARAM);
            CHECK(aclrtSetMemcpyDesc(desc, (aclrtMemcpyKind)kind, a, b, LEN, NULL), ACL_ERROR_INVALID_PARAM);
            CHECK(copy(desc, (aclrtMemcpyKind)kind, stream), ACL_ERROR_INVALID_PARAM);
        }
    }
    CHECK(aclrtGetMemcpyDescSize(INNER, NULL), ACL_ERROR_INVALID_PARAM);
    CHECK(aclrtSetMemcpyDesc(NULL, INNER, a, b, LEN, NULL), ACL_ERROR_INVALID_PARAM);
    CHECK(aclrtSetMemcpyDesc(desc, INNER, NULL, b, LEN, NULL), ACL_ERROR_INVALID_PARAM);
    CHECK(aclrtSetMemcpyDesc(desc, INNER, a, NULL, LEN, NULL), ACL_ERROR_INVALID_PARAM);
    CHECK(copy(NULL, INNER, stream), ACL_ERROR_INVALID_PARAM);
    // The descriptor lives in device memory.
    CHECK(aclrtSetMemcpyDesc(host, INNER, a, b, LEN, NULL), ACL_ERROR_RT_PARAM_INVALID);
    CHECK(copy(host, INNER, stream), ACL_ERROR_RT_PARAM_INVALID);
    CHECK(copy(LOW_GARBAGE, INNER, stream), ACL_ERROR_RT_PARAM_INVALID);
    CHECK(copy(HIGH_GARBAGE, INNER, stream), ACL_ERROR_RT_PARAM_INVALID);
    OK(aclrtSynchronizeStream(stream));
    HOLDS(b, 31, LEN);
    // None of this harmed the descriptor.
    OK(copy(desc, INNER, stream));
    OK(aclrtSynchronizeStream(stream));
    HOLDS(b, 30, LEN);
    OK(aclrtFree(desc));
    OK(aclrtFree(a));
    OK(aclrtFree(b));
    OK(aclrtFreeHost(host));
}

int main(void)
{
    begin();
    OK(aclrtCreateStream(&stream));
    the_documented_order();
    it_is_read_when_it_runs();
    one_never_set_fails_when_it_runs();
    bad_calls_are_refused();
    OK(aclrtDestroyStream(stream));
    return finish("aclrtMemcpyAsyncWithDesc");
}
