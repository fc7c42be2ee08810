// aclrtMemcpyAsyncWithOffset finds its addresses when its task runs: in pointer cells in device or
// page-locked memory, plus an offset each.
#include "kit.h"

enum { LEN = 3000 };

static struct gate gate = GATE;
static aclrtStream stream;

// A cell in device memory that holds this address.
static void **device_cell(void *address)
{
    void *cell = NULL;
    OK(aclrtMalloc(&cell, sizeof address, ACL_MEM_MALLOC_NORMAL_ONLY));
    poke(cell, &address, sizeof address);
    return (void **)cell;
}

static void **pinned_cell(void *address)
{
    void *cell = NULL;
    OK(aclrtMallocHost(&cell, sizeof address));
    memcpy(cell, &address, sizeof address);
    return (void **)cell;
}

static void through_cells(void **dst, const void **src, unsigned char *to, unsigned char *from)
{
    unsigned char want[LEN], got[LEN], bytes[LEN];
    pattern(want, 2, LEN);
    pattern(bytes, 1, LEN);
    poke(to, want, LEN);
    poke(from, bytes, LEN);
    gate_shut(&gate, stream);
    OK(aclrtMemcpyAsyncWithOffset(dst, LEN, 11, src, 500, 7, INNER, stream));
    HOLDS(to, 2, LEN);
    gate_open(&gate);
    OK(aclrtSynchronizeStream(stream));
    memcpy(want + 11, bytes + 7, 500);
    peek(got, to, LEN);
    SAME(got, want, LEN);
    HOLDS(from, 1, LEN);
}

int main(void)
{
    unsigned char *a, *b, *c;
    void **to, **from, **to_locked, **from_locked, *address;
    int kind;
    begin();
    OK(aclrtCreateStream(&stream));
    a = device_memory(1, LEN), b = device_memory(2, LEN), c = device_memory(3, LEN);
    to = device_cell(b), from = device_cell(a), to_locked = pinned_cell(b), from_locked = pinned_cell(a);
    through_cells(to, (const void **)from, b, a);
    through_cells(to_locked, (const void **)from_locked, b, a);
    through_cells(to, (const void **)from_locked, b, a);

    // A task before it, or the host in the meantime, may change where it goes.
    OK(aclrtMemset(b, LEN, 0, LEN));
    address = c;
    memcpy(from_locked, &address, sizeof address);
    gate_shut(&gate, stream);
    OK(aclrtMemcpyAsync(from, sizeof address, from_locked, sizeof address, H2D, stream));
    OK(aclrtMemcpyAsyncWithOffset(to, LEN, 0, (const void **)from, LEN, 0, INNER, stream));
    gate_open(&gate);
    OK(aclrtSynchronizeStream(stream));
    HOLDS(b, 3, LEN);

    for (kind = -1; kind <= 8; kind++) {
        if (kind != 6) {
            CHECK(aclrtMemcpyAsyncWithOffset(to, LEN, 0, (const void **)from, LEN, 0, (aclrtMemcpyKind)kind,
                                             stream),
                  ACL_ERROR_INVALID_PARAM);
        }
    }
    CHECK(aclrtMemcpyAsyncWithOffset(NULL, LEN, 0, (const void **)from, LEN, 0, INNER, stream),
          ACL_ERROR_INVALID_PARAM);
    CHECK(aclrtMemcpyAsyncWithOffset(to, LEN, 0, NULL, LEN, 0, INNER, stream), ACL_ERROR_INVALID_PARAM);
    CHECK(aclrtMemcpyAsyncWithOffset(to, LEN - 1, 0, (const void **)from, LEN, 0, INNER, stream),
          ACL_ERROR_RT_PARAM_INVALID);
    CHECK(
        aclrtMemcpyAsyncWithOffset((void **)LOW_GARBAGE, LEN, 0, (const void **)from, LEN, 0, INNER, stream),
        ACL_ERROR_RT_PARAM_INVALID);
    OK(aclrtSynchronizeStream(stream));

    // A cell that points nowhere, or too far, fails when the task runs, and is told at the next synchronise.
    OK(aclrtMemcpyAsyncWithOffset(to, LEN, 0, (const void **)from, LEN, LEN, INNER, stream));
    CHECK(aclrtSynchronizeStream(stream), ACL_ERROR_RT_PARAM_INVALID);
    address = LOW_GARBAGE;
    memcpy(to_locked, &address, sizeof address);
    OK(aclrtMemcpyAsyncWithOffset(to_locked, LEN, 0, (const void **)from, LEN, 0, INNER, stream));
    CHECK(aclrtSynchronizeStream(stream), ACL_ERROR_RT_PARAM_INVALID);
    OK(aclrtSynchronizeStream(stream));
    HOLDS(b, 3, LEN);
    HOLDS(c, 3, LEN);

    OK(aclrtFree(a));
    OK(aclrtFree(b));
    OK(aclrtFree(c));
    OK(aclrtFree((void *)to));
    OK(aclrtFree((void *)from));
    OK(aclrtFreeHost((void *)to_locked));
    OK(aclrtFreeHost((void *)from_locked));
    OK(aclrtDestroyStream(stream));
    return finish("aclrtMemcpyAsyncWithOffset");
}
