/* CHECK: FERRY-DOUBLE-FREE: the error path frees a device buffer and then goes on to the common cleanup,
 * which frees it again. */
#include "kit.h"

enum { LEN = 4096 };

static int step(unsigned char *device)
{
    /* More bytes than the buffer has: refused. */
    return aclrtMemset(device, LEN, 0, LEN + 1) == ACL_SUCCESS ? 0 : -1;
}

int main(void)
{
    begin();
    unsigned char *device = device_memory(LEN);
    if (step(device) != 0) {
        TRY(aclrtFree(device)); /* WORK */
        FIX(device = NULL;)
    }
    aclError code = device != NULL ? aclrtFree(device) : ACL_SUCCESS; /* ACCESS */
    THAT((code == ACL_SUCCESS) == IS_FIXED);
    return finish();
}
