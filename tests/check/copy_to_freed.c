/* CHECK: FERRY-USE-AFTER-FREE: device memory is freed on an error path, and the cleanup that follows still
 * clears it. */
#include "kit.h"

enum { LEN = 4096 };

static void fail(unsigned char *device)
{
    TRY(aclrtFree(device)); /* WORK */
}

int main(void)
{
    begin();
    aclrtStream stream = new_stream();
    unsigned char *device = device_memory(LEN);
    BUG(fail(device);)
    aclError code = aclrtMemsetAsync(device, LEN, 0, LEN, stream); /* ACCESS */
    THAT((code == ACL_SUCCESS) == IS_FIXED);
    FIX(TRY(aclrtSynchronizeStream(stream));)
    FIX(fail(device);)
    return finish();
}
