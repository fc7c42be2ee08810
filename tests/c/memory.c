// proves: X3 X4
// Memory: how allocations are sized, aligned, described, counted and given back, and that giving back never
// waits for copies, nor lets them touch what comes after.
#include "kit.h"

static struct gate gate = GATE;

static aclrtPtrAttributes attributes_of(const void *ptr)
{
    aclrtPtrAttributes attributes;
    memset(&attributes, 0xff, sizeof attributes);
    OK(aclrtPointerGetAttributes(ptr, &attributes));
    return attributes;
}

static void every_policy(void)
{
    static const int policies[] = {
        ACL_MEM_MALLOC_HUGE_FIRST,
        ACL_MEM_MALLOC_HUGE_ONLY,
        ACL_MEM_MALLOC_NORMAL_ONLY,
        ACL_MEM_MALLOC_HUGE_FIRST_P2P,
        ACL_MEM_MALLOC_HUGE_ONLY_P2P,
        ACL_MEM_MALLOC_NORMAL_ONLY_P2P,
        50,
    };
    static const size_t sizes[] = {1, 31, 32, 33, 4096, 100000, 3 << 20};
    size_t p, s;
    for (p = 0; p < sizeof policies / sizeof policies[0]; p++) {
        for (s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
            void *memory = NULL;
            unsigned char *bytes = pageable(3, sizes[s]);
            OK(aclrtMalloc(&memory, sizes[s], (aclrtMemMallocPolicy)policies[p]));
            THAT(memory != NULL && (uintptr_t)memory % 64 == 0);
            poke(memory, bytes, sizes[s]);
            HOLDS(memory, 3, sizes[s]);
            OK(aclrtFree(memory));
            free(bytes);
        }
    }
}

// 100 bytes are rounded up to 128, and have 32 more behind them.
static void the_documented_padding(void)
{
    void *memory = NULL;
    unsigned char *host = pageable(4, 161);
    OK(aclrtMalloc(&memory, 100, ACL_MEM_MALLOC_NORMAL_ONLY));
    OK(aclrtMemcpy(memory, 160, host, 160, H2D));
    HOLDS(memory, 4, 160);
    CHECK(aclrtMemcpy(memory, 161, host, 161, H2D), ACL_ERROR_RT_PARAM_INVALID);
    OK(aclrtFree(memory));
    free(host);
}

static void what_pointers_are(void)
{
    unsigned char *device = device_memory(5, 4096), *locked = pinned(6, 4096), *plain = pageable(7, 4096);
    aclrtPtrAttributes a = attributes_of(device);
    void *huge = NULL;
    THAT(a.location.type == ACL_MEM_LOCATION_TYPE_DEVICE && a.location.id == 0 && a.pageSize == 4096);
    a = attributes_of(device + 4000);
    THAT(a.location.type == ACL_MEM_LOCATION_TYPE_DEVICE);
    a = attributes_of(locked + 17);
    THAT(a.location.type == ACL_MEM_LOCATION_TYPE_HOST);
    a = attributes_of(plain);
    THAT(a.location.type == ACL_MEM_LOCATION_TYPE_UNREGISTERED);
    a = attributes_of(LOW_GARBAGE);
    THAT(a.location.type == ACL_MEM_LOCATION_TYPE_UNREGISTERED);
    OK(aclrtMalloc(&huge, 4 << 20, ACL_MEM_MALLOC_HUGE_ONLY));
    a = attributes_of(huge);
    THAT(a.location.type == ACL_MEM_LOCATION_TYPE_DEVICE && a.pageSize == 2 << 20);
    OK(aclrtFree(huge));
    if (device_count() > 1) {
        aclrtContext mine = NULL, far = NULL;
        unsigned char *there;
        OK(aclrtGetCurrentContext(&mine));
        OK(aclrtCreateContext(&far, 1));
        there = device_memory(8, 64);
        a = attributes_of(there);
        THAT(a.location.type == ACL_MEM_LOCATION_TYPE_DEVICE && a.location.id == 1);
        OK(aclrtFree(there));
        OK(aclrtSetCurrentContext(mine));
        OK(aclrtDestroyContext(far));
    }
    CHECK(aclrtPointerGetAttributes(device, NULL), ACL_ERROR_INVALID_PARAM);
    CHECK(aclrtPointerGetAttributes(NULL, &a), ACL_ERROR_INVALID_PARAM);
    OK(aclrtFree(device));
    OK(aclrtFreeHost(locked));
    free(plain);
}

static void how_much_there_is(void)
{
    size_t before = 0, total = 0, now = 0, again = 0;
    void *memory = NULL;
    OK(aclrtGetMemInfo(ACL_HBM_MEM, &before, &total));
    THAT(before > 0 && before <= total);
    OK(aclrtMalloc(&memory, 10 << 20, ACL_MEM_MALLOC_HUGE_FIRST));
    OK(aclrtGetMemInfo(ACL_HBM_MEM, &now, &again));
    THAT(again == total && now <= before - (10 << 20));
    OK(aclrtFree(memory));
    OK(aclrtGetMemInfo(ACL_HBM_MEM, &now, &again));
    THAT(now == before && again == total);
    // More than there is.
    memory = NULL;
    CHECK(aclrtMalloc(&memory, total + 1, ACL_MEM_MALLOC_NORMAL_ONLY), ACL_ERROR_RT_MEMORY_ALLOCATION);
    CHECK(aclrtMalloc(&memory, SIZE_MAX, ACL_MEM_MALLOC_NORMAL_ONLY), ACL_ERROR_RT_MEMORY_ALLOCATION);
    CHECK(aclrtMalloc(&memory, SIZE_MAX, ACL_MEM_MALLOC_HUGE_ONLY), ACL_ERROR_RT_MEMORY_ALLOCATION);
    THAT(memory == NULL);
    CHECK(aclrtGetMemInfo(ACL_HBM_MEM, NULL, &total), ACL_ERROR_INVALID_PARAM);
    CHECK(aclrtGetMemInfo(ACL_HBM_MEM, &now, NULL), ACL_ERROR_INVALID_PARAM);
}

static void giving_back(void)
{
    unsigned char *device = device_memory(10, 4096), *locked = pinned(11, 4096), *plain = pageable(12, 64);
    void *memory = NULL;
    CHECK(aclrtMalloc(&memory, 0, ACL_MEM_MALLOC_NORMAL_ONLY), ACL_ERROR_RT_PARAM_INVALID);
    CHECK(aclrtMallocHost(&memory, 0), ACL_ERROR_RT_PARAM_INVALID);
    CHECK(aclrtMalloc(NULL, 64, ACL_MEM_MALLOC_NORMAL_ONLY), ACL_ERROR_INVALID_PARAM);
    CHECK(aclrtMallocHost(NULL, 64), ACL_ERROR_INVALID_PARAM);
    THAT((uintptr_t)locked % 64 == 0);
    REFUSED(aclrtFree(NULL));
    OK(aclrtFreeHost(NULL));
    CHECK(aclrtFree(locked), ACL_ERROR_RT_PARAM_INVALID);
    CHECK(aclrtFreeHost(device), ACL_ERROR_RT_PARAM_INVALID);
    CHECK(aclrtFree(plain), ACL_ERROR_RT_PARAM_INVALID);
    CHECK(aclrtFreeHost(plain), ACL_ERROR_RT_PARAM_INVALID);
    CHECK(aclrtFree(device + 64), ACL_ERROR_RT_PARAM_INVALID);
    CHECK(aclrtFreeHost(locked + 64), ACL_ERROR_RT_PARAM_INVALID);
    CHECK(aclrtFree(LOW_GARBAGE), ACL_ERROR_RT_PARAM_INVALID);
    CHECK(aclrtFreeHost(HIGH_GARBAGE), ACL_ERROR_RT_PARAM_INVALID);
    HOLDS(device, 10, 4096);
    OK(aclrtFree(device));
    CHECK(aclrtFree(device), ACL_ERROR_RT_PARAM_INVALID);
    OK(aclrtFreeHost(locked));
    CHECK(aclrtFreeHost(locked), ACL_ERROR_RT_PARAM_INVALID);
    free(plain);
}

static void neighbours_do_not_touch(void)
{
    enum { MANY = 300 };
    unsigned char *blocks[MANY];
    unsigned i;
    for (i = 0; i < MANY; i++) {
        blocks[i] = device_memory(i, 100 + i * 13);
    }
    for (i = 0; i < MANY; i += 2) {
        OK(aclrtFree(blocks[i]));
    }
    for (i = 0; i < MANY; i += 2) {
        blocks[i] = device_memory(i + 1, 50 + i * 17);
    }
    for (i = 0; i < MANY; i++) {
        HOLDS(blocks[i], i % 2 == 0 ? i + 1 : i, i % 2 == 0 ? 50 + i * 17 : 100 + i * 13);
        OK(aclrtFree(blocks[i]));
    }
}

// aclrtMallocHost is page-locked, malloc is not: the one only delivers, the other waits.
static void what_is_page_locked(void)
{
    unsigned char *device = device_memory(15, 4096), *locked = pinned(16, 4096), *plain = pageable(17, 4096);
    gate_shut(&gate, NULL);
    OK(aclrtMemcpyAsync(device, 4096, locked, 4096, H2D, NULL));
    HOLDS(device, 15, 4096);
    gate_open(&gate);
    WAITS(NULL, aclrtMemcpyAsync(device, 4096, plain, 4096, H2D, NULL));
    HOLDS(device, 17, 4096);
    OK(aclrtFree(device));
    OK(aclrtFreeHost(locked));
    free(plain);
}

// Freeing comes back while a stream that still needs the memory stands still. Here such copies finish as if
// nothing had happened, and what is allocated meanwhile is left alone.
static void freeing_does_not_wait(void)
{
    unsigned char *from = pinned(20, 4096), *a = device_memory(21, 4096), *b = device_memory(22, 4096), *c,
                  *other;
    gate_shut(&gate, NULL);
    OK(aclrtMemcpyAsync(a, 4096, from, 4096, H2D, NULL));
    OK(aclrtMemcpyAsync(b, 4096, a, 4096, D2D, NULL));
    OK(aclrtFree(a));
    OK(aclrtFreeHost(from));
    CHECK(aclrtMemcpy(b, 4096, a, 4096, D2D), ACL_ERROR_RT_PARAM_INVALID);
    CHECK(aclrtFree(a), ACL_ERROR_RT_PARAM_INVALID);
    c = device_memory(23, 4096);
    other = pinned(24, 4096);
    gate_open(&gate);
    OK(aclrtSynchronizeStream(NULL));
    HOLDS(b, 20, 4096);
    HOLDS(c, 23, 4096);
    {
        unsigned char *want = pageable(24, 4096);
        SAME(other, want, 4096);
        free(want);
    }
    OK(aclrtFree(b));
    OK(aclrtFree(c));
    OK(aclrtFreeHost(other));
}

int main(void)
{
    begin();
    every_policy();
    the_documented_padding();
    what_pointers_are();
    how_much_there_is();
    giving_back();
    neighbours_do_not_touch();
    what_is_page_locked();
    freeing_does_not_wait();
    return finish("memory");
}
