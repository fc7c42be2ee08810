/* CHECK: FERRY-HOST-WRITE: the source of an upload is changed as soon as the call has returned. */
#include "kit.h"

enum { LEN = 4096 };

int main(void)
{
    begin();
    aclrtStream stream = new_stream();
    unsigned char *host = page_locked(LEN), *device = device_memory(LEN);
    TRY(aclrtMemcpyAsync(device, LEN, host, LEN, H2D, stream)); /* WORK */
    FIX(TRY(aclrtSynchronizeStream(stream));)
    host[100] = 7; /* ACCESS */
    return finish();
}
