/* CHECK: FERRY-HOST-READ: of two downloads the first one's event is polled until it is complete, and then
 * the result of the second is read. */
#include "kit.h"

enum { LEN = 4096 };

static void poll(aclrtEvent event)
{
    aclrtEventRecordedStatus status = ACL_EVENT_RECORDED_STATUS_NOT_READY;
    while (status != ACL_EVENT_RECORDED_STATUS_COMPLETE) {
        TRY(aclrtQueryEventStatus(event, &status));
    }
}

int main(void)
{
    begin();
    aclrtStream stream = new_stream();
    aclrtEvent events[2] = {new_event(), new_event()};
    unsigned char *hosts[2] = {page_locked(LEN), page_locked(LEN)}, *device = device_memory(LEN);
    TRY(aclrtMemcpyAsync(hosts[0], LEN, device, LEN, D2H, stream));
    TRY(aclrtRecordEvent(events[0], stream));
    TRY(aclrtMemcpyAsync(hosts[1], LEN, device, LEN, D2H, stream)); /* WORK */
    TRY(aclrtRecordEvent(events[1], stream));
    poll(events[PICK(0, 1)]);
    printf("%d\n", hosts[0][1]);
    unsigned char value = hosts[1][1]; /* ACCESS */
    printf("%d\n", value);
    return finish();
}
