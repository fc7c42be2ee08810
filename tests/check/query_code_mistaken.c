/* CHECK: FERRY-HOST-READ: the code of aclrtQueryEventStatus, which says that the question could be asked,
 * is taken for the answer that the event is complete. */
/* NEEDS: userfaultfd */
#include "kit.h"

enum { LEN = 4096 };

static int is_ready(aclrtEvent event)
{
    aclrtEventRecordedStatus status = ACL_EVENT_RECORDED_STATUS_NOT_READY;
    aclError code = aclrtQueryEventStatus(event, &status);
    return PICK(code == ACL_SUCCESS, code == ACL_SUCCESS && status == ACL_EVENT_RECORDED_STATUS_COMPLETE);
}

int main(void)
{
    begin();
    struct gate gate;
    aclrtStream stream = new_stream();
    aclrtEvent copied = new_event();
    unsigned char *host = page_locked(LEN), *device = device_memory(LEN);
    gate_shut(&gate, stream);
    TRY(aclrtMemcpyAsync(host, LEN, device, LEN, D2H, stream)); /* WORK */
    TRY(aclrtRecordEvent(copied, stream));
    FIX(gate_open(&gate);)
    while (!is_ready(copied)) {
    }
    int first = host[0]; /* ACCESS */
    BUG(gate_open(&gate);)
    printf("%d\n", first);
    return finish();
}
