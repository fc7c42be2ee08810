/* CHECK: FERRY-HOST-WRITE: a captured graph is executed twice, and its input is changed for the second
 * execution while the first may still read it. */
#include "kit.h"

enum { LEN = 4096 };

static aclmdlRI capture(aclrtStream stream, unsigned char *device, unsigned char *input)
{
    aclmdlRI graph = NULL;
    TRY(aclmdlRICaptureBegin(stream, ACL_MODEL_RI_CAPTURE_MODE_THREAD_LOCAL));
    TRY(aclrtMemcpyAsync(device, LEN, input, LEN, H2D, stream));
    TRY(aclmdlRICaptureEnd(stream, &graph));
    return graph;
}

int main(void)
{
    begin();
    aclrtStream stream = new_stream();
    unsigned char *input = page_locked(LEN), *device = device_memory(LEN);
    aclmdlRI graph = capture(stream, device, input);
    input[0] = 10; /* No execution is in flight: a capture moves no byte. */
    for (int i = 0; i < 2; i++) {
        input[1] = (unsigned char)i; /* ACCESS */
        TRY(aclmdlRIExecuteAsync(graph, stream)); /* WORK */
        FIX(TRY(aclrtSynchronizeStream(stream));)
    }
    TRY(aclrtSynchronizeStream(stream));
    TRY(aclmdlRIDestroy(graph));
    return finish();
}
