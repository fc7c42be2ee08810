/* CHECK: FERRY-USE-AFTER-FREE: a graph is executed once more after the buffer that it was captured with
 * has been freed. The execution fails when its stream gets there. */
#include "kit.h"

enum { LEN = 4096 };

int main(void)
{
    begin();
    aclmdlRI graph = NULL;
    aclrtStream stream = new_stream();
    unsigned char *host = page_locked(LEN), *device = device_memory(LEN);
    TRY(aclmdlRICaptureBegin(stream, ACL_MODEL_RI_CAPTURE_MODE_GLOBAL));
    TRY(aclrtMemcpyAsync(device, LEN, host, LEN, H2D, stream));
    TRY(aclmdlRICaptureEnd(stream, &graph));
    TRY(aclmdlRIExecuteAsync(graph, stream));
    TRY(aclrtSynchronizeStream(stream));
    BUG(TRY(aclrtFree(device));) /* WORK */
    TRY(aclmdlRIExecuteAsync(graph, stream)); /* ACCESS */
    THAT((aclrtSynchronizeStream(stream) == ACL_SUCCESS) == IS_FIXED);
    TRY(aclmdlRIDestroy(graph));
    FIX(TRY(aclrtFree(device));)
    return finish();
}
