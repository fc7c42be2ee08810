/* CHECK: FERRY-HOST-READ: destroying an event is taken for a wait. Destroying the stream is one, and the
 * fixed twin does that first. */
#include "kit.h"

enum { LEN = 4096 };

int main(void)
{
    begin();
    aclrtStream stream = new_stream();
    aclrtEvent copied = new_event();
    unsigned char *host = page_locked(LEN), *device = device_memory(LEN);
    TRY(aclrtMemcpyAsync(host, LEN, device, LEN, D2H, stream)); /* WORK */
    TRY(aclrtRecordEvent(copied, stream));
    TRY(aclrtDestroyEvent(copied));
    FIX(TRY(aclrtDestroyStream(stream));)
    const void *found = memchr(host, 2, LEN); /* ACCESS */
    BUG(TRY(aclrtDestroyStream(stream));)
    printf("%d\n", found != NULL);
    return finish();
}
