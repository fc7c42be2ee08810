/* CHECK: FERRY-HOST-WRITE: the source is taken for free when the call returns, which is so only for copies
 * of the kind ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE. */
#include "kit.h"

enum { LEN = 2000 };

int main(void)
{
    begin();
    const aclrtMemcpyKind kind = PICK(ACL_MEMCPY_HOST_TO_DEVICE, ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE);
    aclrtStream stream = new_stream();
    unsigned char *host = page_locked(LEN), *device = device_memory(LEN);
    TRY(aclrtMemcpyAsync(device, LEN, host, LEN, kind, stream)); /* WORK */
    *(uint64_t *)(void *)host = UINT64_MAX; /* ACCESS */
    return finish();
}
