/* CHECK: FERRY-HOST-WRITE: a server that has given up root writes the source of an upload in flight. The
 * kernel's files about its threads cannot be opened by then. */
#include "kit.h"

enum { LEN = 4096, NOBODY = 65534 };

int main(void)
{
    begin();
    aclrtStream stream = new_stream();
    unsigned char *host = page_locked(LEN), *device = device_memory(LEN);
    if (geteuid() == 0) {
        THAT(setgid(NOBODY) == 0);
        THAT(setuid(NOBODY) == 0);
    }
    TRY(aclrtMemcpyAsync(device, LEN, host, LEN, H2D, stream)); /* WORK */
    FIX(TRY(aclrtSynchronizeStream(stream));)
    host[100] = 7; /* ACCESS */
    return finish();
}
