/* CHECK: FERRY-HOST-WRITE: a host function fills the source of a copy in another stream, which is told by a
 * notify that the bytes are there. Without the wait for the notify the copy may come first. */
#include "kit.h"

enum { LEN = 1000 };

static sem_t done;

static void fill(void *host)
{
    memset(host, 8, LEN); /* ACCESS */
    sem_post(&done);
}

int main(void)
{
    begin();
    struct gate gate;
    aclrtNotify notify = NULL;
    aclrtStream fills = new_stream(), copies = new_stream();
    unsigned char *host = page_locked(LEN), *device = device_memory(LEN);
    sem_init(&done, 0, 0);
    TRY(aclrtCreateNotify(&notify, ACL_NOTIFY_DEFAULT));
    /* So that the copy has been handed over, and the notify is not recorded, when the function runs. */
    gate_shut(&gate, fills);
    TRY(aclrtLaunchHostFunc(fills, fill, host));
    TRY(aclrtRecordNotify(notify, fills));
    FIX(TRY(aclrtWaitAndResetNotify(notify, copies, 0));)
    TRY(aclrtMemcpyAsync(device, LEN, host, LEN, H2D, copies)); /* WORK */
    gate_open(&gate);
    kit_wait(&done);
    TRY(aclrtSynchronizeStream(fills));
    TRY(aclrtSynchronizeStream(copies));
    TRY(aclrtDestroyNotify(notify));
    return finish();
}
