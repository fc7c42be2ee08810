/* CHECK: FERRY-HOST-WRITE: all work of a device is waited for, but the current device is another one than
 * that of the copy. */
#include "kit.h"

enum { LEN = 4096 };

int main(void)
{
    begin();
    unsigned char *host = page_locked(LEN), *device = device_memory(LEN);
    TRY(aclrtMemcpyAsync(device, LEN, host, LEN, H2D, NULL)); /* WORK */
    TRY(aclrtSetDevice(1));
    FIX(TRY(aclrtSetDevice(0));)
    TRY(aclrtSynchronizeDevice());
    host[17] = 17; /* ACCESS */
    TRY(aclrtSetDevice(0));
    return finish();
}
