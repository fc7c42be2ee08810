/* CHECK: FERRY-HOST-WRITE: physical memory of the host, mapped at reserved addresses, is written while it is
 * being uploaded. */
/* NEEDS: userfaultfd */
#include "kit.h"

int main(void)
{
    begin();
    aclrtStream stream = new_stream();
    unsigned char *device = device_memory(4096);
    aclrtPhysicalMemProp about = {0};
    about.allocationType = ACL_MEM_ALLOCATION_TYPE_PINNED;
    about.memAttr = ACL_DDR_MEM_HUGE;
    about.location.type = ACL_MEM_LOCATION_TYPE_HOST;
    size_t len = 0;
    void *addresses = NULL;
    aclrtDrvMemHandle physical = NULL;
    TRY(aclrtMemGetAllocationGranularity(&about, ACL_RT_MEM_ALLOC_GRANULARITY_MINIMUM, &len));
    TRY(aclrtReserveMemAddress(&addresses, len, 0, NULL, 0));
    TRY(aclrtMallocPhysical(&physical, len, &about, 0));
    TRY(aclrtMapMem(addresses, len, 0, physical, 0));
    unsigned char *host = addresses;
    memset(host, 1, 2 * 4096);
    TRY(aclrtMemcpyAsync(device, 4096, host, 4096, H2D, stream)); /* WORK */
    host[4096] = 2;
    FIX(TRY(aclrtSynchronizeStream(stream));)
    host[77] = 2; /* ACCESS */
    TRY(aclrtSynchronizeStream(stream));
    TRY(aclrtUnmapMem(addresses));
    TRY(aclrtFreePhysical(physical));
    TRY(aclrtReleaseMemAddress(addresses));
    return finish();
}
