/* CHECK: FERRY-CAPTURE: a thread that loads data makes a synchronous copy while another thread captures in
 * global mode. In thread-local mode, which the fixed twin uses, it may. */
/* SAYS: or let the capture use the relaxed mode */
#include "kit.h"

enum { LEN = 4096 };

static unsigned char *device, bytes[LEN];

static void *load(void *unused)
{
    TRY(aclrtSetDevice(0));
    aclError code = aclrtMemcpy(device, LEN, bytes, LEN, H2D); /* ACCESS */
    THAT((code == ACL_SUCCESS) == IS_FIXED);
    TRY(aclrtResetDevice(0));
    return unused;
}

int main(void)
{
    begin();
    aclmdlRICaptureMode mode = PICK(ACL_MODEL_RI_CAPTURE_MODE_GLOBAL, ACL_MODEL_RI_CAPTURE_MODE_THREAD_LOCAL);
    aclmdlRI graph = NULL;
    aclrtStream stream = new_stream();
    unsigned char *other = device_memory(LEN);
    device = device_memory(LEN);
    TRY(aclmdlRICaptureBegin(stream, mode)); /* WORK */
    TRY(aclrtMemsetAsync(other, LEN, 0, LEN, stream));
    join(start(load, NULL));
    THAT((aclmdlRICaptureEnd(stream, &graph) == ACL_SUCCESS) == IS_FIXED);
    FIX(TRY(aclmdlRIDestroy(graph));)
    return finish();
}
