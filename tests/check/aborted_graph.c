/* CHECK: FERRY-LOST: the stream that executes a graph of two branches is aborted, and the downloads of both
 * are dropped. Their memory is free for other use: that is the abort's other effect. */
/* SAYS: aclrtStreamAbort is at */
#include "kit.h"

enum { LEN = 4096 };

static aclmdlRI capture(aclrtStream one, aclrtStream two, unsigned char *results)
{
    aclmdlRI graph = NULL;
    aclrtEvent forked = new_event(), joined = new_event();
    unsigned char *device = device_memory(LEN), *other = device_memory(LEN);
    TRY(aclmdlRICaptureBegin(one, ACL_MODEL_RI_CAPTURE_MODE_GLOBAL));
    TRY(aclrtRecordEvent(forked, one));
    TRY(aclrtStreamWaitEvent(two, forked));
    TRY(aclrtMemcpyAsync(results, LEN, device, LEN, D2H, one));
    TRY(aclrtMemcpyAsync(results + LEN, LEN, other, LEN, D2H, two));
    TRY(aclrtRecordEvent(joined, two));
    TRY(aclrtStreamWaitEvent(one, joined));
    TRY(aclmdlRICaptureEnd(one, &graph));
    return graph;
}

int main(void)
{
    begin();
    aclrtStream one = new_stream(), two = new_stream();
    unsigned char *results = page_locked(2 * LEN);
    aclmdlRI graph = capture(one, two, results);
    TRY(aclmdlRIExecuteAsync(graph, one)); /* WORK ACCESS */
    FIX(TRY(aclrtSynchronizeStream(one));)
    TRY(aclrtStreamAbort(one));
    memset(results, 3, 2 * LEN);
    aclError code = aclrtSynchronizeStream(one);
    THAT(code == ACL_SUCCESS || code == ACL_ERROR_RT_STREAM_ABORT);
    TRY(aclmdlRIDestroy(graph));
    return finish();
}
