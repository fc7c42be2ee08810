// aclrtMemcpyBatch and aclrtMemcpyBatchV2 move every item at once, with one attribute or several, and name
// the item whose memory or direction is wrong.
#include "batch_kit.h"

static struct gate gate = GATE;

#define RUN(b, attrs_) \
    aclrtMemcpyBatch((b).dsts, (b).maxs, (b).srcs, (b).sizes, ITEMS, (b).attrs, (b).starts, attrs_, &fail)
#define RUN_V2(b, attrs_) \
    aclrtMemcpyBatchV2((b).dsts, (b).maxs, (b).srcs, (b).sizes, ITEMS, (b).attrs, (b).starts, attrs_)

static void both_directions(unsigned char *from, unsigned char *to)
{
    unsigned char *device = device_memory(3, BATCH), *want = pageable(3, BATCH), *got = pageable(0, BATCH);
    struct batch down = batch_of(device, at_device(0), from, at_host());
    struct batch up = batch_of(to, at_host(), device, at_device(0));
    size_t fail = 7;

    OK(RUN(down, 1));
    THAT(fail == SIZE_MAX);
    batch_by_hand(want, from);
    peek(got, device, BATCH);
    SAME(got, want, BATCH);

    // One attribute for each copy is as good as one for all.
    memcpy(got, to, BATCH);
    fail = 7;
    OK(RUN(up, ITEMS));
    THAT(fail == SIZE_MAX);
    batch_by_hand(got, want);
    SAME(to, got, BATCH);

    // The V2 form, both ways.
    pattern(from, 4, BATCH);
    OK(RUN_V2(down, 1));
    pattern(to, 5, BATCH);
    OK(RUN_V2(up, ITEMS));
    pattern(got, 5, BATCH);
    batch_by_hand(got, from);
    SAME(to, got, BATCH);

    OK(aclrtFree(device));
    free(want);
    free(got);
}

static void streams_are_not_waited_for(void)
{
    unsigned char *host = pageable(10, BATCH), *device = device_memory(11, BATCH);
    unsigned char *want = pageable(11, BATCH), *got = pageable(0, BATCH);
    struct batch b = batch_of(device, at_device(0), host, at_host());
    size_t fail = 0;
    gate_shut(&gate, NULL);
    OK(RUN(b, 1));
    batch_by_hand(want, host);
    peek(got, device, BATCH);
    SAME(got, want, BATCH);
    gate_open(&gate);
    OK(aclrtSynchronizeStream(NULL));
    free(host);
    free(want);
    free(got);
    OK(aclrtFree(device));
}

static void bad_batches_are_refused(void)
{
    unsigned char *host = pageable(20, BATCH), *device = device_memory(21, BATCH),
                  *gone = device_memory(22, BATCH);
    struct batch good = batch_of(device, at_device(0), host, at_host()), b;
    size_t fail = 0;
    OK(aclrtFree(gone));

    // Not about an item: SIZE_MAX.
    b = good, b.sizes[3] = ITEM + 1;
    CHECK(RUN(b, 1), ACL_ERROR_RT_PARAM_INVALID);
    THAT(fail == SIZE_MAX);
    fail = 0, b = good, b.starts[0] = 1;
    CHECK(RUN(b, 1), ACL_ERROR_RT_PARAM_INVALID);
    THAT(fail == SIZE_MAX);
    fail = 0;
    CHECK(RUN(good, 0), ACL_ERROR_RT_PARAM_INVALID);
    THAT(fail == SIZE_MAX);

    // About an item: its index.
    fail = 0, b = good, b.srcs[4] = device;
    CHECK(RUN(b, 1), ACL_ERROR_RT_PARAM_INVALID);
    THAT(fail == 4);
    fail = 0, b = good, b.dsts[5] = gone;
    CHECK(RUN(b, 1), ACL_ERROR_RT_PARAM_INVALID);
    THAT(fail == 5);
    fail = 0, b = good, b.srcs[6] = LOW_GARBAGE;
    CHECK(RUN(b, 1), ACL_ERROR_RT_PARAM_INVALID);
    THAT(fail == 6);
    fail = 0, b = good, b.attrs[7] = between(at_device(1), at_host());
    CHECK(RUN(b, ITEMS), ACL_ERROR_RT_PARAM_INVALID);
    THAT(fail == 7);
    CHECK(RUN_V2(b, ITEMS), ACL_ERROR_RT_PARAM_INVALID);

    CHECK(aclrtMemcpyBatch(NULL, b.maxs, b.srcs, b.sizes, ITEMS, b.attrs, b.starts, 1, &fail),
          ACL_ERROR_INVALID_PARAM);
    CHECK(aclrtMemcpyBatch(b.dsts, b.maxs, b.srcs, b.sizes, ITEMS, b.attrs, b.starts, 1, NULL),
          ACL_ERROR_INVALID_PARAM);
    CHECK(aclrtMemcpyBatchV2(b.dsts, b.maxs, b.srcs, b.sizes, ITEMS, NULL, b.starts, 1),
          ACL_ERROR_INVALID_PARAM);
    CHECK(aclrtMemcpyBatchV2(b.dsts, b.maxs, b.srcs, b.sizes, 0, b.attrs, b.starts, 1),
          ACL_ERROR_RT_PARAM_INVALID);

    HOLDS(device, 21, BATCH);
    free(host);
    OK(aclrtFree(device));
}

int main(void)
{
    unsigned char *plain, *locked;
    begin();
    plain = pageable(1, BATCH);
    locked = pinned(2, BATCH);
    both_directions(plain, locked);
    both_directions(locked, plain);
    streams_are_not_waited_for();
    bad_batches_are_refused();
    free(plain);
    OK(aclrtFreeHost(locked));
    return finish("aclrtMemcpyBatch and aclrtMemcpyBatchV2");
}
