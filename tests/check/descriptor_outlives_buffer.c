/* CHECK: FERRY-USE-AFTER-FREE: a descriptor still holds the address of a buffer that was freed. The copy
 * by descriptor is accepted, and fails when it runs. */
#include "kit.h"

enum { LEN = 1000 };

int main(void)
{
    begin();
    size_t size = 0;
    aclrtStream stream = new_stream();
    unsigned char *old = device_memory(LEN), *fresh = device_memory(LEN), *output = device_memory(LEN);
    TRY(aclrtGetMemcpyDescSize(INNER, &size));
    void *desc = raw_device(size);
    TRY(aclrtSetMemcpyDesc(desc, INNER, old, output, LEN, NULL));
    TRY(aclrtFree(old)); /* WORK */
    FIX(TRY(aclrtSetMemcpyDesc(desc, INNER, fresh, output, LEN, NULL));)
    TRY(aclrtMemcpyAsyncWithDesc(desc, INNER, stream)); /* ACCESS */
    THAT((aclrtSynchronizeStream(stream) == ACL_SUCCESS) == IS_FIXED);
    TRY(aclrtFree(fresh));
    return finish();
}
