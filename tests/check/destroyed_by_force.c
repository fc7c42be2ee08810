/* CHECK: FERRY-LOST: a stream is destroyed by force while it holds an upload, which is dropped.
 * aclrtDestroyStream would wait for it. */
/* SAYS: aclrtDestroyStreamForce is at */
#include "kit.h"

enum { LEN = 4096 };

int main(void)
{
    begin();
    aclrtStream stream = new_stream();
    unsigned char *host = page_locked(LEN), *device = device_memory(LEN);
    TRY(aclrtMemcpyAsync(device, LEN, host, LEN, H2D, stream)); /* WORK ACCESS */
    TRY(IS_FIXED ? aclrtDestroyStream(stream) : aclrtDestroyStreamForce(stream));
    return finish();
}
