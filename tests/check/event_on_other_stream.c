/* CHECK: FERRY-HOST-WRITE: the copy goes through a copy stream, but the event that guards its buffer is
 * recorded on the compute stream. */
#include "kit.h"

enum { LEN = 4096 };

struct worker {
    aclrtStream compute, copy;
    aclrtEvent done;
    unsigned char *host, *device;
};

static void send(struct worker *worker)
{
    TRY(aclrtMemcpyAsync(worker->device, LEN, worker->host, LEN, H2D, worker->copy)); /* WORK */
    TRY(aclrtMemsetAsync(worker->device + LEN, LEN, 0, LEN, worker->compute));
    TRY(aclrtRecordEvent(worker->done, PICK(worker->compute, worker->copy)));
}

int main(void)
{
    begin();
    unsigned char *host = page_locked(LEN), *device = device_memory(2 * LEN);
    struct worker worker = {new_stream(), new_stream(), new_event(), host, device};
    send(&worker);
    TRY(aclrtSynchronizeEvent(worker.done));
    memcpy(worker.host, "next", 4); /* ACCESS */
    return finish();
}
