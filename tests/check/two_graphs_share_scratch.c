/* CHECK: FERRY-STREAM-RACE: two graphs that were captured over the same scratch buffer are executed in two
 * streams at a time. Executions of one graph would follow each other; those of two do not. */
#include "kit.h"

enum { LEN = 4096 };

static aclmdlRI capture(aclrtStream stream, void *scratch, void *input, void *output)
{
    aclmdlRI graph = NULL;
    TRY(aclmdlRICaptureBegin(stream, ACL_MODEL_RI_CAPTURE_MODE_GLOBAL));
    TRY(aclrtMemcpyAsync(scratch, LEN, input, LEN, D2D, stream));
    TRY(aclrtMemcpyAsync(output, LEN, scratch, LEN, D2D, stream));
    TRY(aclmdlRICaptureEnd(stream, &graph));
    return graph;
}

int main(void)
{
    begin();
    aclrtStream one = new_stream(), two = new_stream();
    unsigned char *input = device_memory(LEN), *scratch = device_memory(LEN);
    aclmdlRI first = capture(one, scratch, input, device_memory(LEN));
    aclmdlRI second = capture(two, scratch, input, device_memory(LEN));
    TRY(aclmdlRIExecuteAsync(first, one)); /* WORK */
    TRY(aclmdlRIExecuteAsync(PICK(second, first), two)); /* ACCESS */
    TRY(aclrtSynchronizeDevice());
    TRY(aclmdlRIDestroy(first));
    TRY(aclmdlRIDestroy(second));
    return finish();
}
