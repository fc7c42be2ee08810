/* CHECK: FERRY-STREAM-RACE: a batch scatters blocks into a cache, and the slot that one of them goes to is
 * cleared by another stream. */
#include "kit.h"

enum { SLOTS = 16, SLOT = 256, BLOCKS = 4 };

int main(void)
{
    begin();
    static const int table[BLOCKS] = {12, 3, 7, 9};
    aclrtStream clears = new_stream(), loads = new_stream();
    unsigned char *host = page_locked(BLOCKS * SLOT), *cache = device_memory(SLOTS * SLOT);
    void *dsts[BLOCKS], *srcs[BLOCKS];
    size_t sizes[BLOCKS], first = 0;
    aclrtMemcpyBatchAttr attr = {{0, ACL_MEM_LOCATION_TYPE_DEVICE}, {0, ACL_MEM_LOCATION_TYPE_HOST}, {0}};
    for (int i = 0; i < BLOCKS; i++) {
        dsts[i] = cache + table[i] * SLOT;
        srcs[i] = host + i * SLOT;
        sizes[i] = SLOT;
    }
    /* Slot 8, which the fixed twin clears, lies between two that are loaded. */
    TRY(aclrtMemsetAsync(cache + PICK(7, 8) * SLOT, SLOT, 0, SLOT, clears)); /* WORK */
    TRY(aclrtMemcpyBatchAsyncV2(dsts, sizes, srcs, sizes, BLOCKS, &attr, &first, 1, loads)); /* ACCESS */
    return finish();
}
