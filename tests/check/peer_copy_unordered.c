/* CHECK: FERRY-STREAM-RACE: device 0 pushes its bytes to device 1, whose own stream reads them while the
 * copy is in flight. */
#include "kit.h"

enum { LEN = 4096 };

int main(void)
{
    begin();
    aclrtStream push = new_stream();
    unsigned char *here = device_memory(LEN), *host = page_locked(LEN);
    TRY(aclrtDeviceEnablePeerAccess(1, 0));
    TRY(aclrtSetDevice(1));
    TRY(aclrtDeviceEnablePeerAccess(0, 0));
    aclrtStream pull = new_stream();
    unsigned char *there = device_memory(LEN);
    TRY(aclrtSetDevice(0));
    TRY(aclrtMemcpyAsync(there, LEN, here, LEN, D2D, push)); /* WORK */
    FIX(TRY(aclrtSynchronizeStream(push));)
    TRY(aclrtSetDevice(1));
    TRY(aclrtMemcpyAsync(host, LEN, there, LEN, D2H, pull)); /* ACCESS */
    TRY(aclrtSynchronizeDevice());
    TRY(aclrtSetDevice(0));
    return finish();
}
