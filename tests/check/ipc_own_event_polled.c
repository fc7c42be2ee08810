/* CHECK: FERRY-HOST-READ: a process polls an event that it shares with others until it is complete, and reads
 * the result of a download. It recorded the event before the download and not behind it. */
/* NEEDS: userfaultfd */
#include "kit.h"

enum { LEN = 4096 };

int main(void)
{
    aclrtEvent arrived = NULL;
    aclrtEventRecordedStatus status = ACL_EVENT_RECORDED_STATUS_NOT_READY;
    begin();
    aclrtStream stream = new_stream();
    unsigned char *host = page_locked(LEN), *device = device_memory(LEN);
    TRY(aclrtCreateEventExWithFlag(&arrived, ACL_EVENT_IPC));
    BUG(TRY(aclrtRecordEvent(arrived, stream));)
    TRY(aclrtMemcpyAsync(host, LEN, device, LEN, D2H, stream)); /* WORK */
    FIX(TRY(aclrtRecordEvent(arrived, stream));)
    while (status != ACL_EVENT_RECORDED_STATUS_COMPLETE) {
        TRY(aclrtQueryEventStatus(arrived, &status));
    }
    printf("%d\n", host[0]); /* ACCESS */
    return finish();
}
