/* CHECK: FERRY-HOST-WRITE: a key is cleared with the C library's memset while the copy that sends it is in
 * flight. */
#include "kit.h"

enum { LEN = 256 };

static void forget(unsigned char *key)
{
    memset(key, 0, LEN); /* ACCESS */
}

int main(void)
{
    begin();
    unsigned char *key = page_locked(LEN), *device = device_memory(LEN);
    /* The default stream: no stream of the program's own has to be there. */
    TRY(aclrtMemcpyAsync(device, LEN, key, LEN, H2D, NULL)); /* WORK */
    FIX(TRY(aclrtSynchronizeStream(NULL));)
    forget(key);
    return finish();
}
