/* CHECK: FERRY-LOST: a stream is aborted for a fill that is not wanted any more, and a download that was
 * handed over before goes with it. */
/* SAYS: aclrtStreamAbort is at */
#include "kit.h"

enum { LEN = 4096 };

int main(void)
{
    begin();
    aclrtStream stream = new_stream();
    unsigned char *host = page_locked(LEN), *device = device_memory(LEN);
    TRY(aclrtMemcpyAsync(host, LEN, device, LEN, D2H, stream)); /* WORK ACCESS */
    FIX(TRY(aclrtSynchronizeStream(stream));)
    TRY(aclrtStreamAbort(stream));
    /* Tells once that the stream was aborted, if that dropped anything. */
    aclError code = aclrtSynchronizeStream(stream);
    THAT(code == ACL_SUCCESS || code == ACL_ERROR_RT_STREAM_ABORT);
    return finish();
}
