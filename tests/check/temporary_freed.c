/* CHECK: FERRY-FREE: a function uploads from a temporary page-locked buffer and frees it before it
 * returns. The fixed twin frees it with the call that waits for the device. */
#include "kit.h"

enum { LEN = 8192 };

static void upload(unsigned char *device, const unsigned char *bytes, aclrtStream stream)
{
    void *temporary = NULL;
    TRY(aclrtMallocHost(&temporary, LEN));
    memcpy(temporary, bytes, LEN);
    TRY(aclrtMemcpyAsync(device, LEN, temporary, LEN, H2D, stream)); /* WORK */
    TRY(IS_FIXED ? aclrtFreeHostWithDevSync(temporary) : aclrtFreeHost(temporary)); /* ACCESS */
}

int main(void)
{
    begin();
    static unsigned char bytes[LEN];
    upload(device_memory(LEN), bytes, new_stream());
    return finish();
}
