/* CHECK: FERRY-UNINITIALISED: a buffer is freed, another one of the same length is allocated, and its
 * content is taken for the old one's. */
#include "kit.h"

enum { LEN = 65536 };

int main(void)
{
    begin();
    static unsigned char answer[LEN];
    unsigned char *device = device_memory(LEN);
    BUG(TRY(aclrtFree(device));)
    BUG(device = raw_device(LEN);)
    TRY(aclrtMemcpyAsync(answer, LEN, device, LEN, D2H, NULL)); /* WORK ACCESS */
    TRY(aclrtFree(device));
    return finish();
}
