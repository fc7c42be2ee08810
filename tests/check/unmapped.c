/* CHECK: FERRY-FREE: physical memory is unmapped from its addresses while a fill of them is in flight. */
#include "kit.h"

int main(void)
{
    begin();
    aclrtMemLocation location = {0, ACL_MEM_LOCATION_TYPE_DEVICE};
    aclrtPhysicalMemProp prop = {.memAttr = ACL_HBM_MEM_NORMAL, .location = location};
    aclrtDrvMemHandle physical = NULL;
    void *range = NULL;
    size_t len = 0;
    aclrtStream stream = new_stream();
    TRY(aclrtMemGetAllocationGranularity(&prop, ACL_RT_MEM_ALLOC_GRANULARITY_MINIMUM, &len));
    TRY(aclrtReserveMemAddress(&range, len, 0, NULL, 0));
    TRY(aclrtMallocPhysical(&physical, len, &prop, 0));
    TRY(aclrtMapMem(range, len, 0, physical, 0));
    TRY(aclrtMemsetAsync(range, len, 0, len, stream)); /* WORK */
    FIX(TRY(aclrtSynchronizeStream(stream));)
    TRY(aclrtUnmapMem(range)); /* ACCESS */
    TRY(aclrtSynchronizeStream(stream));
    TRY(aclrtFreePhysical(physical));
    TRY(aclrtReleaseMemAddress(range));
    return finish();
}
