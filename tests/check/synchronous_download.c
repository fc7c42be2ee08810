/* CHECK: FERRY-STREAM-RACE: a synchronous copy fetches what an asynchronous one is bringing to the device.
 * It waits for itself and is not behind the work of any stream. */
#include "kit.h"

enum { LEN = 4096 };

int main(void)
{
    begin();
    static unsigned char got[LEN];
    unsigned char *host = page_locked(LEN), *device = device_memory(LEN);
    TRY(aclrtMemcpyAsync(device, LEN, host, LEN, H2D, NULL)); /* WORK */
    FIX(TRY(aclrtSynchronizeStream(NULL));)
    TRY(aclrtMemcpy(got, LEN, device, LEN, D2H)); /* ACCESS */
    printf("%d\n", got[0]);
    return finish();
}
