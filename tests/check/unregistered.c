/* CHECK: FERRY-FREE: memory from the C library is unregistered while a download into it is in flight. */
#include "kit.h"

enum { PAGE = 4096, LEN = 2 * PAGE };

int main(void)
{
    begin();
    void *own = NULL;
    aclrtStream stream = new_stream();
    unsigned char *device = device_memory(LEN);
    THAT(posix_memalign(&own, PAGE, LEN) == 0);
    memset(own, 0, LEN);
    TRY(aclrtHostRegisterV2(own, LEN, ACL_HOST_REG_PINNED));
    TRY(aclrtMemcpyAsync(own, LEN, device, LEN, D2H, stream)); /* WORK */
    FIX(TRY(aclrtSynchronizeStream(stream));)
    TRY(aclrtHostUnregister(own)); /* ACCESS */
    TRY(aclrtSynchronizeStream(stream));
    free(own);
    return finish();
}
