/* CHECK: FERRY-HOST-READ: the last of three streams is synchronised, which covers the others only if each
 * waits for the one before it; the middle one waits for the wrong event. */
#include "kit.h"

enum { LEN = 4096 };

int main(void)
{
    begin();
    aclrtStream streams[3] = {new_stream(), new_stream(), new_stream()};
    aclrtEvent start = new_event(), events[2] = {new_event(), new_event()};
    unsigned char *host = page_locked(LEN), *device = device_memory(LEN);
    TRY(aclrtRecordEvent(start, streams[0]));
    TRY(aclrtMemcpyAsync(host, LEN, device, LEN, D2H, streams[0])); /* WORK */
    TRY(aclrtRecordEvent(events[0], streams[0]));
    TRY(aclrtStreamWaitEvent(streams[1], PICK(start, events[0])));
    TRY(aclrtRecordEvent(events[1], streams[1]));
    TRY(aclrtStreamWaitEvent(streams[2], events[1]));
    TRY(aclrtSynchronizeStream(streams[2]));
    unsigned char value = host[1]; /* ACCESS */
    printf("%d\n", value);
    return finish();
}
