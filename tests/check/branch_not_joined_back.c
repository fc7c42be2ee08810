/* CHECK: FERRY-CAPTURE: a stream that joined a capture by an event has work that does not lead back to the
 * stream whose capture began. The call that ends the capture is the one that fails. */
/* SAYS: let the stream whose capture began wait for it */
#include "kit.h"

enum { LEN = 4096 };

int main(void)
{
    begin();
    aclmdlRI graph = NULL;
    aclrtStream one = new_stream(), two = new_stream();
    aclrtEvent forked = new_event();
    FIX(aclrtEvent joined = new_event();)
    unsigned char *first = device_memory(LEN), *second = device_memory(LEN);
    TRY(aclmdlRICaptureBegin(one, ACL_MODEL_RI_CAPTURE_MODE_GLOBAL)); /* WORK */
    TRY(aclrtMemsetAsync(first, LEN, 1, LEN, one));
    TRY(aclrtRecordEvent(forked, one));
    TRY(aclrtStreamWaitEvent(two, forked));
    TRY(aclrtMemsetAsync(second, LEN, 2, LEN, two));
    FIX(TRY(aclrtRecordEvent(joined, two));)
    FIX(TRY(aclrtStreamWaitEvent(one, joined));)
    aclError code = aclmdlRICaptureEnd(one, &graph); /* ACCESS */
    THAT((code == ACL_SUCCESS) == IS_FIXED);
    return finish();
}
