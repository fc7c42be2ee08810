/* CHECK: FERRY-UNINITIALISED: the device buffer that is downloaded was allocated and never written. */
#include "kit.h"

enum { LEN = 4096 };

int main(void)
{
    begin();
    aclrtStream stream = new_stream();
    unsigned char *host = page_locked(LEN), *device = raw_device(LEN);
    FIX(TRY(aclrtMemsetAsync(device, LEN, 0, LEN, stream));)
    TRY(aclrtMemcpyAsync(host, LEN, device, LEN, D2H, stream)); /* WORK ACCESS */
    TRY(aclrtSynchronizeStream(stream));
    return finish();
}
