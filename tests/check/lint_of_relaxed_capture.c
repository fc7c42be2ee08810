/* CHECK: FERRY-CAPTURE: a relaxed capture lets another thread make a synchronous fill, which would break a
 * capture in any other mode. Only --capture-lint tells, as a warning. */
/* OPTIONS: --capture-lint */
/* SAYS: Move the call out of the capture, so that it can use any mode. */
#include "kit.h"

enum { LEN = 4096 };

static unsigned char *device;

static void *clear(void *stream)
{
    TRY(aclrtSetDevice(0));
    BUG(TRY(aclrtMemset(device, LEN, 0, LEN));) /* ACCESS */
    FIX(TRY(aclrtMemsetAsync(device, LEN, 0, LEN, stream));)
    TRY(aclrtResetDevice(0));
    return stream;
}

int main(void)
{
    begin();
    aclmdlRI graph = NULL;
    aclrtStream captured = new_stream(), other = new_stream();
    unsigned char *host = page_locked(LEN), *input = device_memory(LEN);
    device = device_memory(LEN);
    TRY(aclmdlRICaptureBegin(captured, ACL_MODEL_RI_CAPTURE_MODE_RELAXED)); /* WORK */
    TRY(aclrtMemcpyAsync(input, LEN, host, LEN, H2D, captured));
    join(start(clear, other));
    TRY(aclmdlRICaptureEnd(captured, &graph));
    TRY(aclmdlRIDestroy(graph));
    return finish();
}
