/* CHECK: FERRY-HOST-READ: the program asks a few times whether the stream is done, and reads the result
 * although no answer was yes. The fixed twin leaves its loop only when the stream is complete. */
/* NEEDS: userfaultfd */
#include "kit.h"

enum { LEN = 4096 };

int main(void)
{
    begin();
    struct gate gate;
    aclrtStreamStatus status = ACL_STREAM_STATUS_NOT_READY;
    aclrtStream stream = new_stream();
    unsigned char *host = page_locked(LEN), *device = device_memory(LEN);
    gate_shut(&gate, stream);
    TRY(aclrtMemcpyAsync(host, LEN, device, LEN, D2H, stream)); /* WORK */
    FIX(gate_open(&gate);)
    for (int i = 0; IS_FIXED || i < 3; i++) {
        TRY(aclrtStreamQuery(stream, &status));
        if (status == ACL_STREAM_STATUS_COMPLETE) {
            break;
        }
    }
    int sum = host[0] + 1; /* ACCESS */
    BUG(gate_open(&gate);)
    printf("%d\n", sum);
    return finish();
}
