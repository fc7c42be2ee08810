/* CHECK: FERRY-CAPTURE: a stream is synchronised, out of habit, between two calls of a capture, which
 * breaks the capture. */
#include "kit.h"

enum { LEN = 4096 };

int main(void)
{
    begin();
    aclmdlRI graph = NULL;
    aclrtStream stream = new_stream();
    unsigned char *host = page_locked(LEN), *device = device_memory(LEN);
    TRY(aclmdlRICaptureBegin(stream, ACL_MODEL_RI_CAPTURE_MODE_THREAD_LOCAL)); /* WORK */
    TRY(aclrtMemcpyAsync(device, LEN, host, LEN, H2D, stream));
    BUG(REFUSED(aclrtSynchronizeStream(stream));) /* ACCESS */
    THAT((aclmdlRICaptureEnd(stream, &graph) == ACL_SUCCESS) == IS_FIXED);
    FIX(TRY(aclmdlRIDestroy(graph));)
    return finish();
}
