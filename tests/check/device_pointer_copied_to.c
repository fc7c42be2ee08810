/* CHECK: FERRY-DEVICE-POINTER: memcpy of the C library is given a device address to write to, where
 * aclrtMemcpy is meant. */
/* EXIT: 139 */
#include "kit.h"

enum { LEN = 5000 };

static unsigned char bytes[LEN];

int main(void)
{
    begin();
    unsigned char *device = device_memory(LEN);
    BUG(memcpy(device, bytes, LEN);) /* ACCESS */
    FIX(TRY(aclrtMemcpy(device, LEN, bytes, LEN, H2D));)
    return finish();
}
