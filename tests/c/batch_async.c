// proves: R41 R42 R43 R44 R45 R46 R47 R48 R49 R50 R51 R52 R53 R54 R56 R57 R58 R59 R60 R61 R62 R63
// aclrtMemcpyBatchAsync and its V2 form deliver a batch to a stream, wait when an item's host memory is
// pageable, read each attribute for the items that it covers, and name the item that is wrong.
#include "batch_kit.h"

static struct gate gate = GATE;
static aclrtStream stream;
static size_t fail;

typedef aclError (*batch_fn)(void **dsts, size_t *destMaxs, void **srcs, size_t *sizes, size_t numBatches,
                             aclrtMemcpyBatchAttr *attrs, size_t *attrsIndexes, size_t numAttrs,
                             size_t *failIndex, aclrtStream stream);
static const batch_fn batch_async = aclrtMemcpyBatchAsync;

static aclError run(struct batch *b, size_t attrs)
{
    fail = 12345;
    return batch_async(b->dsts, b->maxs, b->srcs, b->sizes, ITEMS, b->attrs, b->starts, attrs, &fail, stream);
}

static aclError run_v2(struct batch *b, size_t attrs)
{
    return aclrtMemcpyBatchAsyncV2(b->dsts, b->maxs, b->srcs, b->sizes, ITEMS, b->attrs, b->starts, attrs,
                                   stream);
}

static void page_locked_batches_are_only_delivered(aclError (*submit)(struct batch *, size_t))
{
    unsigned char *from = pinned(1, BATCH), *to = pinned(2, BATCH), *device = device_memory(3, BATCH);
    unsigned char *want = pageable(3, BATCH), *back = pageable(2, BATCH), *got = pageable(0, BATCH);
    struct batch down = batch_of(device, at_device(0), from, at_host());
    struct batch up = batch_of(to, at_host(), device, at_device(0));

    gate_shut(&gate, stream);
    OK(submit(&down, 1));
    OK(submit(&up, ITEMS));
    // The arrays belong to the caller again as soon as the call is back.
    memset(&down, 0xff, sizeof down);
    memset(&up, 0xff, sizeof up);
    HOLDS(device, 3, BATCH);
    SAME(to, back, BATCH);
    gate_open(&gate);
    OK(aclrtSynchronizeStream(stream));

    batch_by_hand(want, from);
    peek(got, device, BATCH);
    SAME(got, want, BATCH);
    batch_by_hand(back, from);
    SAME(to, back, BATCH);
    OK(aclrtFreeHost(from));
    OK(aclrtFreeHost(to));
    OK(aclrtFree(device));
    free(want);
    free(back);
    free(got);
}

static void pageable_batches_wait(aclError (*submit)(struct batch *, size_t))
{
    unsigned char *from = pageable(5, BATCH), *to = pageable(6, BATCH), *device = device_memory(7, BATCH);
    unsigned char *want = pageable(7, BATCH), *got = pageable(0, BATCH);
    struct batch down = batch_of(device, at_device(0), from, at_host());
    struct batch up = batch_of(to, at_nowhere_known(), device, at_device(0));
    WAITS(stream, submit(&down, 1));
    batch_by_hand(want, from);
    peek(got, device, BATCH);
    SAME(got, want, BATCH);
    WAITS(stream, submit(&up, 1));
    pattern(got, 6, BATCH);
    batch_by_hand(got, from);
    SAME(to, got, BATCH);
    free(from);
    free(to);
    free(want);
    free(got);
    OK(aclrtFree(device));
}

// A single pageable item among page-locked ones is enough.
static void one_pageable_item_makes_all_wait(void)
{
    unsigned char *from = pinned(8, BATCH), *plain = pageable(9, ITEM), *device = device_memory(10, BATCH);
    unsigned char *want = pageable(10, BATCH), *got = pageable(0, BATCH);
    struct batch b = batch_of(device, at_device(0), from, at_host());
    b.srcs[ITEMS - 1] = plain;
    WAITS(stream, run(&b, 1));
    batch_by_hand(want, from);
    memcpy(want + (ITEMS - 1) * STEP, plain, ITEM);
    peek(got, device, BATCH);
    SAME(got, want, BATCH);
    OK(aclrtFreeHost(from));
    free(plain);
    free(want);
    free(got);
    OK(aclrtFree(device));
}

// The documents' own example: ten copies, the first six with one attribute, the last four with another.
static void six_and_four(void)
{
    uint32_t other = device_count() > 1 ? 1 : 0;
    unsigned char *from = pinned(15, BATCH), *device = device_memory(16, BATCH), *far,
                  *got = pageable(0, BATCH);
    unsigned char *want = pageable(16, BATCH);
    struct batch b;
    aclrtContext mine = NULL;
    int i;
    OK(aclrtGetCurrentContext(&mine));
    OK(aclrtSetDevice((int32_t)other));
    far = device_memory(17, BATCH);
    OK(aclrtSetCurrentContext(mine));

    b = batch_of(device, at_device(0), from, at_host());
    for (i = 6; i < ITEMS; i++) {
        b.dsts[i] = far + i * STEP;
    }
    b.starts[1] = 6;
    b.attrs[1] = between(at_device(other), at_host());
    OK(run(&b, 2));
    THAT(fail == SIZE_MAX);
    OK(aclrtSynchronizeStream(stream));
    for (i = 0; i < 6; i++) {
        memcpy(want + i * STEP, from + i * STEP, ITEM);
    }
    peek(got, device, BATCH);
    SAME(got, want, BATCH);
    pattern(want, 17, BATCH);
    for (i = 6; i < ITEMS; i++) {
        memcpy(want + i * STEP, from + i * STEP, ITEM);
    }
    peek(got, far, BATCH);
    SAME(got, want, BATCH);

    // Each attribute is read for its own items and no others.
    b.starts[1] = 5;
    if (other == 1) {
        CHECK(run(&b, 2), ACL_ERROR_RT_PARAM_INVALID);
        THAT(fail == 5);
        b.starts[1] = 7;
        CHECK(run(&b, 2), ACL_ERROR_RT_PARAM_INVALID);
        THAT(fail == 6);
        CHECK(run(&b, 1), ACL_ERROR_RT_PARAM_INVALID);
        THAT(fail == 6);
    }
    OK(aclrtFree(far));
    OK(aclrtFree(device));
    OK(aclrtFreeHost(from));
    free(got);
    free(want);
    OK(aclrtResetDevice((int32_t)other));
}

// What concerns no item in particular leaves SIZE_MAX.
static void broken_arrays(struct batch good)
{
    struct batch b = good;
    CHECK(batch_async(b.dsts, b.maxs, b.srcs, b.sizes, 0, b.attrs, b.starts, 1, &fail, stream),
          ACL_ERROR_RT_PARAM_INVALID);
    THAT(fail == SIZE_MAX);
    CHECK(run(&b, 0), ACL_ERROR_RT_PARAM_INVALID);
    THAT(fail == SIZE_MAX);
    // More attributes than copies.
    CHECK(batch_async(b.dsts, b.maxs, b.srcs, b.sizes, 3, b.attrs, b.starts, 4, &fail, stream),
          ACL_ERROR_RT_PARAM_INVALID);
    THAT(fail == SIZE_MAX);
    // The first index is 0.
    b = good, b.starts[0] = 1, b.starts[1] = 2;
    CHECK(run(&b, 2), ACL_ERROR_RT_PARAM_INVALID);
    THAT(fail == SIZE_MAX);
    // Each is greater than the one before.
    b = good, b.starts[1] = 3, b.starts[2] = 3;
    CHECK(run(&b, 3), ACL_ERROR_RT_PARAM_INVALID);
    THAT(fail == SIZE_MAX);
    b = good, b.starts[1] = 4, b.starts[2] = 3;
    CHECK(run(&b, 3), ACL_ERROR_RT_PARAM_INVALID);
    THAT(fail == SIZE_MAX);
    // The last is a copy's.
    b = good, b.starts[1] = ITEMS;
    CHECK(run(&b, 2), ACL_ERROR_RT_PARAM_INVALID);
    THAT(fail == SIZE_MAX);
    b = good, b.starts[1] = ITEMS - 1;
    OK(run(&b, 2));
    // A size that its maximum does not allow.
    b = good, b.maxs[9] = ITEM - 1;
    CHECK(run(&b, 1), ACL_ERROR_RT_PARAM_INVALID);
    THAT(fail == SIZE_MAX);
    OK(aclrtSynchronizeStream(stream));
}

static void null_arrays(struct batch b)
{
    size_t *s = b.sizes;
    CHECK(batch_async(NULL, b.maxs, b.srcs, s, ITEMS, b.attrs, b.starts, 1, &fail, stream),
          ACL_ERROR_INVALID_PARAM);
    CHECK(batch_async(b.dsts, NULL, b.srcs, s, ITEMS, b.attrs, b.starts, 1, &fail, stream),
          ACL_ERROR_INVALID_PARAM);
    CHECK(batch_async(b.dsts, b.maxs, NULL, s, ITEMS, b.attrs, b.starts, 1, &fail, stream),
          ACL_ERROR_INVALID_PARAM);
    CHECK(batch_async(b.dsts, b.maxs, b.srcs, NULL, ITEMS, b.attrs, b.starts, 1, &fail, stream),
          ACL_ERROR_INVALID_PARAM);
    CHECK(batch_async(b.dsts, b.maxs, b.srcs, s, ITEMS, NULL, b.starts, 1, &fail, stream),
          ACL_ERROR_INVALID_PARAM);
    CHECK(batch_async(b.dsts, b.maxs, b.srcs, s, ITEMS, b.attrs, NULL, 1, &fail, stream),
          ACL_ERROR_INVALID_PARAM);
    CHECK(batch_async(b.dsts, b.maxs, b.srcs, s, ITEMS, b.attrs, b.starts, 1, NULL, stream),
          ACL_ERROR_INVALID_PARAM);
}

// What concerns an item leaves its index.
static void wrong_items(struct batch good, unsigned char *host, unsigned char *device)
{
    unsigned char *other = device_memory(25, ITEM), *gone = device_memory(26, ITEM),
                  *locked_gone = pinned(27, ITEM);
    struct {
        void *dst, *src;
        aclrtMemcpyBatchAttr attr;
    } cases[] = {
        // The attribute says one thing, the pointer is another.
        {device, other, between(at_device(0), at_host())},
        {host, host + ITEM, between(at_device(0), at_host())},
        {device, host, between(at_device(7), at_host())},
        {device, host, between(at_host(), at_device(0))},
        {device, host, between(at_device(0), at_nowhere_known())},
        // A direction that batches do not have, or not the one of the other items.
        {device, other, between(at_device(0), at_device(0))},
        {host, host + ITEM, between(at_host(), at_host())},
        {host, device, between(at_host(), at_device(0))},
        // Locations that do not exist here.
        {device, host, between(at_device(0), at_host())},
        {device, host, between(at_device(0), at_host())},
        {device, host, between(at_device(0), at_host())},
        // Reserved bytes are 0.
        {device, host, between(at_device(0), at_host())},
        // Memory that is not there, or not enough of it.
        {gone, host, between(at_device(0), at_host())},
        {device, locked_gone, between(at_device(0), at_host())},
        {device, LOW_GARBAGE, between(at_device(0), at_host())},
        {device + BATCH, host, between(at_device(0), at_host())},
    };
    size_t i, n = sizeof cases / sizeof cases[0];
    OK(aclrtFree(gone));
    OK(aclrtFreeHost(locked_gone));
    cases[8].attr.srcLoc.type = ACL_MEM_LOCATION_TYPE_MANAGED;
    cases[9].attr.srcLoc.type = ACL_MEM_LOCATION_TYPE_HOST_NUMA;
    cases[10].attr.dstLoc.type = (aclrtMemLocationType)77;
    cases[11].attr.rsv[15] = 1;
    for (i = 0; i < n; i++) {
        size_t item = 1 + i % (ITEMS - 1);
        struct batch b = good;
        b.dsts[item] = cases[i].dst;
        b.srcs[item] = cases[i].src;
        b.attrs[item] = cases[i].attr;
        CHECK(run(&b, ITEMS), ACL_ERROR_RT_PARAM_INVALID);
        CHECK(fail, item);
        CHECK(run_v2(&b, ITEMS), ACL_ERROR_RT_PARAM_INVALID);
    }
    OK(aclrtSynchronizeStream(stream));
    OK(aclrtFree(other));
}

static void bad_batches_are_refused(void)
{
    unsigned char *host = pinned(20, BATCH), *device = device_memory(21, BATCH);
    struct batch good = batch_of(device, at_device(0), host, at_host());
    null_arrays(good);
    wrong_items(good, host, device);
    HOLDS(device, 21, BATCH);
    broken_arrays(good);
    OK(aclrtFreeHost(host));
    OK(aclrtFree(device));
}

static void an_item_of_no_bytes_copies_nothing(void)
{
    unsigned char *host = pinned(30, BATCH), *device = device_memory(31, BATCH);
    unsigned char *want = pageable(31, BATCH), *got = pageable(0, BATCH);
    struct batch b = batch_of(device, at_device(0), host, at_host());
    b.sizes[4] = 0;
    // The id of a host location means nothing.
    b.attrs[0].srcLoc.id = 99;
    OK(run(&b, 1));
    OK(aclrtSynchronizeStream(stream));
    batch_by_hand(want, host);
    pattern(got, 31, BATCH);
    memcpy(want + 4 * STEP, got + 4 * STEP, ITEM);
    peek(got, device, BATCH);
    SAME(got, want, BATCH);
    free(want);
    free(got);
    OK(aclrtFreeHost(host));
    OK(aclrtFree(device));
}

int main(void)
{
    begin();
    OK(aclrtCreateStream(&stream));
    page_locked_batches_are_only_delivered(run);
    page_locked_batches_are_only_delivered(run_v2);
    pageable_batches_wait(run);
    pageable_batches_wait(run_v2);
    one_pageable_item_makes_all_wait();
    six_and_four();
    bad_batches_are_refused();
    an_item_of_no_bytes_copies_nothing();
    OK(aclrtDestroyStream(stream));
    return finish("aclrtMemcpyBatchAsync and aclrtMemcpyBatchAsyncV2");
}
