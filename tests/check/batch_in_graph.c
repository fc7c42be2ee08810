/* CHECK: FERRY-BATCH-RACE: a batch that is captured writes some bytes twice. The copy that is captured before
 * it is one operation with it when the graph is executed. */
/* SAYS: Two copies of a batch of 2 copies */
#include "kit.h"

enum { LEN = 128 };

int main(void)
{
    begin();
    aclmdlRI graph = NULL;
    aclrtStream stream = new_stream();
    unsigned char *host = page_locked(4 * LEN), *first = device_memory(LEN), *device = device_memory(2 * LEN);
    void *dsts[] = {device, device + PICK(LEN / 2, LEN)}, *srcs[] = {host, host + LEN};
    size_t lens[] = {LEN, LEN}, begins[] = {0};
    aclrtMemcpyBatchAttr attr = {{0, ACL_MEM_LOCATION_TYPE_DEVICE}, {0, ACL_MEM_LOCATION_TYPE_HOST}, {0}};
    TRY(aclmdlRICaptureBegin(stream, ACL_MODEL_RI_CAPTURE_MODE_GLOBAL));
    TRY(aclrtMemcpyAsync(first, LEN, host + 2 * LEN, LEN, H2D, stream));
    TRY(aclrtMemcpyBatchAsyncV2(dsts, lens, srcs, lens, 2, &attr, begins, 1, stream)); /* WORK ACCESS */
    TRY(aclmdlRICaptureEnd(stream, &graph));
    TRY(aclmdlRIExecuteAsync(graph, stream));
    TRY(aclrtSynchronizeStream(stream));
    TRY(aclmdlRIDestroy(graph));
    return finish();
}
