/* CHECK: FERRY-HOST-WRITE: the event is recorded before the copy, so waiting for it says nothing about the
 * copy. */
#include "kit.h"

enum { LEN = 4096 };

int main(void)
{
    begin();
    aclrtStream stream = new_stream();
    aclrtEvent sent = new_event();
    unsigned char *host = page_locked(LEN), *device = device_memory(LEN);
    BUG(TRY(aclrtRecordEvent(sent, stream));)
    TRY(aclrtMemcpyAsync(device, LEN, host, LEN, H2D, stream)); /* WORK */
    FIX(TRY(aclrtRecordEvent(sent, stream));)
    TRY(aclrtSynchronizeEvent(sent));
    host[0] = 2; /* ACCESS */
    return finish();
}
