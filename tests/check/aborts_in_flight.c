/* CHECK: FERRY-LOST: a program that cannot go on calls abort while a download is in flight. Nobody knows
 * whether the result has arrived. */
/* SAYS: A signal ended the process while a copy */
/* EXIT: 134 */
#include "kit.h"

enum { LEN = 4096 };

int main(void)
{
    begin();
    aclrtStream stream = new_stream();
    unsigned char *host = page_locked(LEN), *device = device_memory(LEN);
    TRY(aclrtMemcpyAsync(host, LEN, device, LEN, D2H, stream)); /* WORK ACCESS */
    BUG(abort();)
    return finish();
}
