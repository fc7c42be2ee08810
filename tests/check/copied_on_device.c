/* CHECK: FERRY-UNINITIALISED: a buffer that nobody wrote is copied inside the device, twice, before it is
 * downloaded. The copies in between are no mistake: they carry along what they find. */
#include "kit.h"

enum { LEN = 4096 };

int main(void)
{
    begin();
    aclrtStream stream = new_stream();
    unsigned char *old = PICK(raw_device(LEN), device_memory(LEN)), *middle = device_memory(LEN);
    unsigned char *last = device_memory(LEN), *host = page_locked(LEN);
    TRY(aclrtMemcpyAsync(middle, LEN, old, LEN / 2, D2D, stream));
    TRY(aclrtMemcpyAsync(last, LEN, middle + LEN / 4, LEN / 2, D2D, stream));
    TRY(aclrtMemcpyAsync(host, LEN, last, LEN, D2H, stream)); /* WORK ACCESS */
    TRY(aclrtSynchronizeStream(stream));
    return finish();
}
