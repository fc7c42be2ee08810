/* CHECK: FERRY-HOST-WRITE: the program synchronises the default stream, which does not wait for the stream
 * of the copy. */
#include "kit.h"

enum { LEN = 4096 };

int main(void)
{
    begin();
    aclrtStream stream = new_stream();
    unsigned char *host = page_locked(LEN), *device = device_memory(2 * LEN);
    TRY(aclrtMemcpyAsyncWithCondition(device, LEN, host, LEN, H2D, stream)); /* WORK */
    TRY(aclrtMemsetAsync(device + LEN, LEN, 0, LEN, NULL));
    TRY(aclrtSynchronizeStream(PICK(NULL, stream)));
    snprintf((char *)host, LEN, "step %d", 2); /* ACCESS */
    return finish();
}
