/* CHECK: FERRY-HOST-READ: a synchronise with a timeout has timed out, and the program does not look at its
 * code. */
/* NEEDS: userfaultfd */
#include "kit.h"

enum { LEN = 4096 };

int main(void)
{
    begin();
    struct gate gate;
    aclrtStream stream = new_stream();
    unsigned char *host = page_locked(LEN), *device = device_memory(LEN);
    gate_shut(&gate, stream);
    TRY(aclrtMemcpyAsync(host, LEN, device, LEN, D2H, stream)); /* WORK */
    FIX(gate_open(&gate);)
    aclError code = aclrtSynchronizeStreamWithTimeout(stream, PICK(5, 60000));
    THAT(code == PICK(ACL_ERROR_RT_STREAM_SYNC_TIMEOUT, ACL_SUCCESS));
    unsigned char value = host[LEN - 1]; /* ACCESS */
    BUG(gate_open(&gate);)
    printf("%d\n", value);
    return finish();
}
