/* CHECK: FERRY-HOST-WRITE: a stream that waits for an upload of another one is aborted, and the source of
 * that upload is filled again. The abort has ended the wait, and not the upload. */
#include "kit.h"

enum { LEN = 4096 };

int main(void)
{
    begin();
    aclrtStream uploads = new_stream(), compute = new_stream();
    aclrtEvent uploaded = new_event();
    unsigned char *host = page_locked(LEN), *device = device_memory(LEN);
    TRY(aclrtMemcpyAsync(device, LEN, host, LEN, H2D, uploads)); /* WORK */
    TRY(aclrtRecordEvent(uploaded, uploads));
    TRY(aclrtStreamWaitEvent(compute, uploaded));
    FIX(TRY(aclrtSynchronizeStream(uploads));)
    TRY(aclrtStreamAbort(compute));
    /* The step is not computed. */
    host[100] = 3; /* ACCESS */
    aclError code = aclrtSynchronizeStream(compute);
    THAT(code == ACL_SUCCESS || code == ACL_ERROR_RT_STREAM_ABORT);
    return finish();
}
