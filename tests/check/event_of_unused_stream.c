/* CHECK: FERRY-STREAM-RACE: the event of an upload is waited for on the stream that the worker was made
 * with, but the worker has moved to another stream. */
#include "kit.h"

enum { LEN = 4096 };

struct worker {
    aclrtStream made_with, now;
};

int main(void)
{
    begin();
    struct worker worker = {new_stream(), new_stream()};
    aclrtStream loads = new_stream();
    aclrtEvent loaded = new_event();
    unsigned char *host = page_locked(LEN), *result = page_locked(LEN), *device = device_memory(LEN);
    TRY(aclrtMemcpyAsync(device, LEN, host, LEN, H2D, loads)); /* WORK */
    TRY(aclrtRecordEvent(loaded, loads));
    TRY(aclrtStreamWaitEvent(PICK(worker.made_with, worker.now), loaded));
    TRY(aclrtMemcpyAsync(result, LEN, device, LEN, D2H, worker.now)); /* ACCESS */
    return finish();
}
