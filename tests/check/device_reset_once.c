/* CHECK: FERRY-HOST-READ: a device was set twice. The first reset takes back one of the two and waits for
 * nothing; the last one waits. */
#include "kit.h"

enum { LEN = 4096 };

int main(void)
{
    begin();
    TRY(aclrtSetDevice(0));
    aclrtStream stream = new_stream();
    unsigned char *host = page_locked(LEN), *device = device_memory(LEN);
    TRY(aclrtMemcpyAsync(host, LEN, device, LEN, D2H, stream)); /* WORK */
    TRY(aclrtResetDevice(0));
    FIX(TRY(aclrtResetDevice(0));)
    unsigned char value = host[9]; /* ACCESS */
    BUG(TRY(aclrtResetDevice(0));)
    printf("%d\n", value);
    TRY(aclFinalize());
    return 0;
}
