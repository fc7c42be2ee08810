/* CHECK: FERRY-HOST-READ: four results are read when calls about their events have proved that the copies
 * are complete: a time between two of them, the time of one, and that nobody waits for one any more. The
 * last one's call is about the event of the copy before. */
/* OPTIONS: --schedule late */
/* NEEDS: userfaultfd */
#include "kit.h"

enum { LEN = 4096, COPIES = 4 };

int main(void)
{
    begin();
    aclrtStream streams[2] = {new_stream(), new_stream()};
    aclrtEvent before = new_event(), events[COPIES];
    unsigned char *hosts[COPIES], *device = device_memory(LEN);
    TRY(aclrtRecordEvent(before, streams[0]));
    for (int copy = 0; copy < COPIES; copy++) {
        hosts[copy] = page_locked(LEN);
        events[copy] = new_event();
        TRY(aclrtMemcpyAsync(hosts[copy], LEN, device, LEN, D2H, streams[0])); /* WORK */
        TRY(aclrtRecordEvent(events[copy], streams[0]));
    }

    float elapsed = 0;
    while (aclrtEventElapsedTime(&elapsed, before, events[0]) != ACL_SUCCESS) {
    }
    unsigned sum = hosts[0][0];
    uint64_t reached = 0;
    while (aclrtEventGetTimestamp(events[1], &reached) != ACL_SUCCESS) {
    }
    sum += hosts[1][0];
    for (int wait = 2; wait < COPIES; wait++) {
        aclrtEventWaitStatus status = ACL_EVENT_WAIT_STATUS_NOT_READY;
        aclrtEvent event = events[wait == 2 ? 2 : PICK(2, 3)];
        TRY(aclrtStreamWaitEvent(streams[1], event));
        while (status != ACL_EVENT_WAIT_STATUS_COMPLETE) {
            TRY(aclrtQueryEventWaitStatus(event, &status));
        }
        sum += hosts[wait][0]; /* ACCESS */
    }
    printf("%u\n", sum);
    return finish();
}
