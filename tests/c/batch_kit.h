// Ten copies between a host and device memory, as the batch functions want them.
#ifndef FERRY_TESTS_BATCH_KIT_H
#define FERRY_TESTS_BATCH_KIT_H

#include "kit.h"

enum { ITEMS = 10, ITEM = 1000, STEP = 1024, BATCH = ITEMS * STEP };

struct batch {
    void *dsts[ITEMS], *srcs[ITEMS];
    size_t maxs[ITEMS], sizes[ITEMS];
    aclrtMemcpyBatchAttr attrs[ITEMS];
    size_t starts[ITEMS];
};

static inline aclrtMemLocation at_host(void)
{
    aclrtMemLocation location = {0, ACL_MEM_LOCATION_TYPE_HOST};
    return location;
}

static inline aclrtMemLocation at_device(uint32_t id)
{
    aclrtMemLocation location = {0, ACL_MEM_LOCATION_TYPE_DEVICE};
    location.id = id;
    return location;
}

static inline aclrtMemLocation at_nowhere_known(void)
{
    aclrtMemLocation location = {0, ACL_MEM_LOCATION_TYPE_UNREGISTERED};
    return location;
}

static inline aclrtMemcpyBatchAttr between(aclrtMemLocation dst, aclrtMemLocation src)
{
    aclrtMemcpyBatchAttr attr;
    memset(&attr, 0, sizeof attr);
    attr.dstLoc = dst;
    attr.srcLoc = src;
    return attr;
}

// Item i moves ITEM bytes from the i-th step of src to the i-th step of dst; one attribute serves all.
static inline struct batch batch_of(unsigned char *dst, aclrtMemLocation to, unsigned char *src,
                                    aclrtMemLocation from)
{
    struct batch b;
    int i;
    memset(&b, 0, sizeof b);
    for (i = 0; i < ITEMS; i++) {
        b.dsts[i] = dst + i * STEP;
        b.srcs[i] = src + i * STEP;
        b.maxs[i] = b.sizes[i] = ITEM;
        b.starts[i] = (size_t)i;
        b.attrs[i] = between(to, from);
    }
    return b;
}

// What the batch makes of the destination's bytes.
static inline void batch_by_hand(unsigned char *dst, const unsigned char *src)
{
    int i;
    for (i = 0; i < ITEMS; i++) {
        memcpy(dst + i * STEP, src + i * STEP, ITEM);
    }
}

#endif
