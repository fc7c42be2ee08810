/* CHECK: FERRY-STREAM-RACE: a graph reads a device buffer that an upload of another stream writes. The
 * fixed twin has the launching stream wait for the upload. */
#include "kit.h"

enum { LEN = 4096 };

int main(void)
{
    begin();
    aclmdlRI graph = NULL;
    aclrtStream runs = new_stream(), loads = new_stream();
    aclrtEvent loaded = new_event();
    unsigned char *host = page_locked(LEN), *weights = device_memory(LEN), *copy = device_memory(LEN);
    TRY(aclmdlRICaptureBegin(runs, ACL_MODEL_RI_CAPTURE_MODE_THREAD_LOCAL));
    TRY(aclrtMemcpyAsync(copy, LEN, weights, LEN, D2D, runs));
    TRY(aclmdlRICaptureEnd(runs, &graph));
    TRY(aclrtMemcpyAsync(weights, LEN, host, LEN, H2D, loads)); /* WORK */
    TRY(aclrtRecordEvent(loaded, loads));
    FIX(TRY(aclrtStreamWaitEvent(runs, loaded));)
    TRY(aclmdlRIExecuteAsync(graph, runs)); /* ACCESS */
    TRY(aclrtSynchronizeStream(runs));
    TRY(aclmdlRIDestroy(graph));
    return finish();
}
