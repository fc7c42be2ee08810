/* CHECK: FERRY-LEAK: a cache that grows maps one more piece of physical memory for each step. In the end it
 * unmaps all of them, gives the addresses back, and forgets the handles. */
/* OPTIONS: --leaks */
/* SAYS: bytes of physical memory were allocated, and their handle was never freed */
#include "kit.h"

enum { STEPS = 2 };

int main(void)
{
    begin();
    aclrtMemLocation location = {0, ACL_MEM_LOCATION_TYPE_DEVICE};
    aclrtPhysicalMemProp prop = {.memAttr = ACL_HBM_MEM_NORMAL, .location = location};
    aclrtDrvMemHandle pieces[STEPS];
    void *cache = NULL;
    size_t len = 0;
    TRY(aclrtMemGetAllocationGranularity(&prop, ACL_RT_MEM_ALLOC_GRANULARITY_MINIMUM, &len));
    TRY(aclrtReserveMemAddress(&cache, STEPS * len, 0, NULL, 0));
    for (int step = 0; step < STEPS; step++) {
        TRY(aclrtMallocPhysical(&pieces[step], len, &prop, 0)); /* ACCESS */
        TRY(aclrtMapMem((char *)cache + step * len, len, 0, pieces[step], 0));
    }
    TRY(aclrtMemset(cache, STEPS * len, 0, STEPS * len));
    for (int step = 0; step < STEPS; step++) {
        TRY(aclrtUnmapMem((char *)cache + step * len));
        FIX(TRY(aclrtFreePhysical(pieces[step]));)
    }
    TRY(aclrtReleaseMemAddress(cache));
    return finish();
}
