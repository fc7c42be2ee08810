/* CHECK: FERRY-STREAM-RACE: work on the default stream is taken for ordered with all other streams; it is
 * one stream among others. */
#include "kit.h"

enum { LEN = 4096 };

int main(void)
{
    begin();
    aclrtStream stream = new_stream();
    unsigned char *host = page_locked(LEN), *device = device_memory(LEN);
    TRY(aclrtMemsetAsync(device, LEN, 0, LEN, NULL)); /* WORK */
    TRY(aclrtMemcpyAsync(device, LEN, host, LEN, H2D, PICK(stream, NULL))); /* ACCESS */
    return finish();
}
