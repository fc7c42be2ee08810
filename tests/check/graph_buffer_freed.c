/* CHECK: FERRY-FREE: the staging buffer of a graph is freed while an execution of the graph uses it. */
#include "kit.h"

enum { LEN = 4096 };

int main(void)
{
    begin();
    aclmdlRI graph = NULL;
    aclrtStream stream = new_stream();
    unsigned char *staging = page_locked(LEN), *device = device_memory(LEN);
    TRY(aclmdlRICaptureBegin(stream, ACL_MODEL_RI_CAPTURE_MODE_RELAXED));
    TRY(aclrtMemcpyAsync(device, LEN, staging, LEN, H2D, stream));
    TRY(aclmdlRICaptureEnd(stream, &graph));
    TRY(aclmdlRIExecuteAsync(graph, stream)); /* WORK */
    FIX(TRY(aclrtSynchronizeStream(stream));)
    TRY(aclrtFreeHost(staging)); /* ACCESS */
    TRY(aclrtSynchronizeStream(stream));
    TRY(aclmdlRIDestroy(graph));
    return finish();
}
