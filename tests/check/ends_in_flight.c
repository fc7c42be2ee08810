/* CHECK: FERRY-LOST: main returns with a download in flight that nobody has joined. */
#include "kit.h"

enum { LEN = 4096 };

int main(void)
{
    begin();
    aclrtStream stream = new_stream();
    unsigned char *host = page_locked(LEN), *device = device_memory(LEN);
    TRY(aclrtMemcpyAsync(host, LEN, device, LEN, D2H, stream)); /* WORK ACCESS */
    FIX(TRY(aclrtSynchronizeStream(stream));)
    return 0;
}
