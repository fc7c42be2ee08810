/* CHECK: FERRY-HOST-WRITE: the second half of a buffer is filled while the first is uploaded, from one
 * byte too early. */
#include "kit.h"

enum { LEN = 10000, HALF = LEN / 2 };

int main(void)
{
    begin();
    aclrtStream stream = new_stream();
    unsigned char *host = page_locked(LEN), *device = device_memory(LEN);
    TRY(aclrtMemcpyAsync(device, LEN, host, HALF, H2D, stream)); /* WORK */
    for (int i = HALF - PICK(1, 0); i < LEN; i++) {
        host[i] = 9; /* ACCESS */
    }
    TRY(aclrtMemcpyAsync(device + HALF, HALF, host + HALF, HALF, H2D, stream));
    return finish();
}
