/* CHECK: FERRY-STREAM-RACE: a graph has two branches, of which the second reads what the first one copies. It
 * begins behind an event that was recorded before that copy. The fixed twin records it behind the copy. An
 * execution has both copies of the first branch as one. */
/* SAYS: aclmdlRIExecuteAsync executes the graph */
#include "kit.h"

enum { LEN = 4096 };

static aclmdlRI capture(aclrtStream one, aclrtStream two, unsigned char *scratch)
{
    aclmdlRI graph = NULL;
    aclrtEvent forked = new_event(), joined = new_event();
    unsigned char *other = device_memory(LEN), *input = device_memory(LEN), *output = device_memory(LEN);
    TRY(aclmdlRICaptureBegin(one, ACL_MODEL_RI_CAPTURE_MODE_GLOBAL));
    BUG(TRY(aclrtRecordEvent(forked, one));)
    TRY(aclrtMemcpyAsync(other, LEN, input, LEN, D2D, one));
    TRY(aclrtMemcpyAsync(scratch, LEN, input, LEN, D2D, one)); /* WORK */
    FIX(TRY(aclrtRecordEvent(forked, one));)
    TRY(aclrtStreamWaitEvent(two, forked));
    TRY(aclrtMemcpyAsync(output, LEN, scratch, LEN, D2D, two)); /* ACCESS */
    TRY(aclrtRecordEvent(joined, two));
    TRY(aclrtStreamWaitEvent(one, joined));
    TRY(aclmdlRICaptureEnd(one, &graph));
    return graph;
}

int main(void)
{
    begin();
    aclrtStream one = new_stream(), two = new_stream();
    aclmdlRI graph = capture(one, two, device_memory(LEN));
    for (int step = 0; step < 3; step++)
        TRY(aclmdlRIExecuteAsync(graph, one));
    TRY(aclrtSynchronizeStream(one));
    TRY(aclmdlRIDestroy(graph));
    return finish();
}
