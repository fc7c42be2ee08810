/* CHECK: FERRY-HOST-READ: a watchdog thread waits for an event with a limit and then says "done" in either
 * case; the thread that reads the result believes it. */
/* NEEDS: userfaultfd */
#include "kit.h"

enum { LEN = 4096 };

static aclrtEvent copied;
static sem_t done;

static void *watch(void *unused)
{
    TRY(aclrtSetDevice(0));
    aclError code = aclrtSynchronizeEventWithTimeout(copied, PICK(5, 60000));
    THAT(code == ACL_SUCCESS || code == ACL_ERROR_RT_EVENT_SYNC_TIMEOUT);
    TRY(aclrtResetDevice(0));
    sem_post(&done);
    return unused;
}

int main(void)
{
    begin();
    struct gate gate;
    aclrtStream stream = new_stream();
    unsigned char *host = page_locked(LEN), *device = device_memory(LEN);
    copied = new_event();
    sem_init(&done, 0, 0);
    gate_shut(&gate, stream);
    TRY(aclrtMemcpyAsync(host, LEN, device, LEN, D2H, stream)); /* WORK */
    TRY(aclrtRecordEvent(copied, stream));
    FIX(gate_open(&gate);)
    pthread_t watchdog = start(watch, NULL);
    kit_wait(&done);
    unsigned char value = host[5]; /* ACCESS */
    BUG(gate_open(&gate);)
    join(watchdog);
    printf("%d\n", value);
    return finish();
}
