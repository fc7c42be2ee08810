/* CHECK: FERRY-HOST-WRITE: a host function of one stream prepares a buffer that an upload of another
 * stream reads, and nothing orders the two. */
#include "kit.h"

enum { LEN = 4096 };

static sem_t done;

static void prepare(void *host)
{
    *(unsigned *)host = 1234; /* ACCESS */
    sem_post(&done);
}

int main(void)
{
    begin();
    aclrtStream copies = new_stream(), functions = new_stream();
    aclrtEvent sent = new_event();
    unsigned char *host = page_locked(LEN), *device = device_memory(LEN);
    TRY(aclrtMemcpyAsync(device, LEN, host, LEN, H2D, copies)); /* WORK */
    TRY(aclrtRecordEvent(sent, copies));
    FIX(TRY(aclrtStreamWaitEvent(functions, sent));)
    sem_init(&done, 0, 0);
    TRY(aclrtLaunchHostFunc(functions, prepare, host));
    kit_wait(&done);
    return finish();
}
