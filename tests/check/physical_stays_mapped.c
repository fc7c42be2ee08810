/* CHECK: FERRY-LEAK: the handle of physical memory is freed as soon as it is mapped, which is allowed: the
 * memory stays for as long as it is mapped. Nobody unmaps it. */
/* OPTIONS: --leaks */
/* SAYS: bytes of physical memory were allocated and never unmapped */
#include "kit.h"

int main(void)
{
    begin();
    aclrtMemLocation location = {0, ACL_MEM_LOCATION_TYPE_DEVICE};
    aclrtPhysicalMemProp prop = {.memAttr = ACL_HBM_MEM_NORMAL, .location = location};
    aclrtDrvMemHandle physical = NULL;
    void *range = NULL;
    size_t len = 0;
    TRY(aclrtMemGetAllocationGranularity(&prop, ACL_RT_MEM_ALLOC_GRANULARITY_MINIMUM, &len));
    TRY(aclrtReserveMemAddress(&range, len, 0, NULL, 0));
    TRY(aclrtMallocPhysical(&physical, len, &prop, 0)); /* ACCESS */
    TRY(aclrtMapMem(range, len, 0, physical, 0));
    TRY(aclrtFreePhysical(physical));
    TRY(aclrtMemset(range, len, 0, len));
    FIX(TRY(aclrtUnmapMem(range));)
    FIX(TRY(aclrtReleaseMemAddress(range));)
    return finish();
}
