/* CHECK: FERRY-HOST-READ: the output of a graph is read when the execution was launched. aclmdlRIExecute,
 * which the fixed twin uses, waits; aclmdlRIExecuteAsync does not. */
#include "kit.h"

enum { LEN = 4096 };

int main(void)
{
    begin();
    aclmdlRI graph = NULL;
    aclrtStream stream = new_stream();
    unsigned char *output = page_locked(LEN), *device = device_memory(LEN);
    TRY(aclmdlRICaptureBegin(stream, ACL_MODEL_RI_CAPTURE_MODE_GLOBAL));
    TRY(aclrtMemsetAsync(device, LEN, 4, LEN, stream));
    TRY(aclrtMemcpyAsync(output, LEN, device, LEN, D2H, stream));
    TRY(aclmdlRICaptureEnd(stream, &graph));
    TRY(IS_FIXED ? aclmdlRIExecute(graph, -1) : aclmdlRIExecuteAsync(graph, stream)); /* WORK */
    unsigned char value = output[0]; /* ACCESS */
    printf("%d\n", value);
    TRY(aclrtSynchronizeStream(stream));
    TRY(aclmdlRIDestroy(graph));
    return finish();
}
