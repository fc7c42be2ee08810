/* CHECK: FERRY-HOST-WRITE: a synchronous copy of other memory waits for itself alone, not for the
 * asynchronous one before it. */
#include "kit.h"

enum { LEN = 4096 };

int main(void)
{
    begin();
    aclrtStream stream = new_stream();
    unsigned char *host = page_locked(LEN), *device = device_memory(2 * LEN), small[64] = {0};
    TRY(aclrtMemcpyAsync(device, LEN, host, LEN, H2D, stream)); /* WORK */
    BUG(TRY(aclrtMemcpy(device + LEN, LEN, small, sizeof small, H2D));)
    /* An asynchronous copy of pageable memory returns when its stream has got there. */
    FIX(TRY(aclrtMemcpyAsync(device + LEN, LEN, small, sizeof small, H2D, stream));)
    host[LEN / 2] = 6; /* ACCESS */
    return finish();
}
