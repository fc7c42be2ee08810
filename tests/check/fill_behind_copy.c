/* CHECK: FERRY-STREAM-RACE: a 32-bit fill clears a buffer for the next step while another stream still
 * brings it to the host. */
#include "kit.h"

enum { COUNT = 512, LEN = COUNT * 4 };

int main(void)
{
    begin();
    aclrtStream downloads = new_stream(), fills = new_stream();
    unsigned char *host = page_locked(LEN), *device = device_memory(LEN);
    TRY(aclrtMemcpyAsync(host, LEN, device, LEN, D2H, downloads)); /* WORK */
    FIX(TRY(aclrtSynchronizeStream(downloads));)
    TRY(aclrtMemsetD32Async(device, LEN, 0x3f800000, COUNT, fills)); /* ACCESS */
    return finish();
}
