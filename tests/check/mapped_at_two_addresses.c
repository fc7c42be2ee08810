/* CHECK: FERRY-STREAM-RACE: the same physical memory is mapped at two addresses. Two streams use one
 * address each, and so the same bytes. */
#include "kit.h"

int main(void)
{
    begin();
    aclrtMemLocation location = {0, ACL_MEM_LOCATION_TYPE_DEVICE};
    aclrtPhysicalMemProp prop = {.memAttr = ACL_HBM_MEM_NORMAL, .location = location};
    aclrtDrvMemHandle physical = NULL;
    void *views[2] = {NULL, NULL};
    size_t len = 0;
    aclrtStream fills = new_stream(), reads = new_stream();
    TRY(aclrtMemGetAllocationGranularity(&prop, ACL_RT_MEM_ALLOC_GRANULARITY_MINIMUM, &len));
    TRY(aclrtMallocPhysical(&physical, len, &prop, 0));
    for (int i = 0; i < 2; i++) {
        TRY(aclrtReserveMemAddress(&views[i], len, 0, NULL, 0));
        TRY(aclrtMapMem(views[i], len, 0, physical, 0));
    }
    unsigned char *host = page_locked(len);
    TRY(aclrtMemset(views[1], len, 0, len));
    TRY(aclrtMemsetAsync(views[0], len, 5, len, fills)); /* WORK */
    FIX(TRY(aclrtSynchronizeStream(fills));)
    TRY(aclrtMemcpyAsync(host, len, views[1], len, D2H, reads)); /* ACCESS */
    return finish();
}
