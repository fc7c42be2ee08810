/* CHECK: FERRY-USE-AFTER-FREE: two requests use descriptors of a cache slot that was evicted meanwhile. Their
 * copies fail when they run. The stream is destroyed, which waits for them and says nothing. */
#include "kit.h"

enum { LEN = 1000 };

static void *describe(void *source, void *target)
{
    size_t size = 0;
    TRY(aclrtGetMemcpyDescSize(INNER, &size));
    void *desc = raw_device(size);
    TRY(aclrtSetMemcpyDesc(desc, INNER, source, target, LEN, NULL));
    return desc;
}

int main(void)
{
    begin();
    aclrtStream stream;
    TRY(aclrtCreateStream(&stream));
    unsigned char *slot = device_memory(LEN), *kept = device_memory(LEN), *output = device_memory(2 * LEN);
    void *first = describe(kept, output), *second = describe(slot, output + LEN);
    TRY(aclrtFree(slot)); /* WORK */
    FIX(TRY(aclrtSetMemcpyDesc(second, INNER, kept, output + LEN, LEN, NULL));)
    TRY(aclrtMemcpyAsyncWithDesc(first, INNER, stream));
    TRY(aclrtMemcpyAsyncWithDesc(second, INNER, stream)); /* ACCESS */
    TRY(aclrtDestroyStream(stream));
    TRY(aclrtFree(kept));
    return finish();
}
