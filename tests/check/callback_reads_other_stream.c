/* CHECK: FERRY-HOST-READ: a callback, run by a thread that is subscribed to one stream, reads what a copy
 * of another stream brings. The fixed twin has the callback's stream wait for the copy. */
#include "kit.h"

enum { LEN = 4096 };

static sem_t subscribed;
static volatile int is_done, value;

static void look(void *host)
{
    value = ((unsigned char *)host)[10]; /* ACCESS */
    is_done = 1;
}

static void *serve(void *unused)
{
    kit_wait(&subscribed);
    TRY(aclrtSetDevice(0));
    while (!is_done) {
        aclError code = aclrtProcessReport(1000);
        THAT(code == ACL_SUCCESS || code == ACL_ERROR_RT_REPORT_TIMEOUT);
    }
    TRY(aclrtResetDevice(0));
    return unused;
}

int main(void)
{
    begin();
    aclrtStream copies = new_stream(), calls = new_stream();
    aclrtEvent copied = new_event();
    unsigned char *host = page_locked(LEN), *device = device_memory(LEN);
    sem_init(&subscribed, 0, 0);
    pthread_t server = start(serve, NULL);
    TRY(aclrtSubscribeReport((uint64_t)server, calls));
    sem_post(&subscribed);
    TRY(aclrtMemcpyAsync(host, LEN, device, LEN, D2H, copies)); /* WORK */
    TRY(aclrtRecordEvent(copied, copies));
    FIX(TRY(aclrtStreamWaitEvent(calls, copied));)
    TRY(aclrtLaunchCallback(look, host, ACL_CALLBACK_BLOCK, calls));
    join(server);
    TRY(aclrtSynchronizeStream(copies));
    TRY(aclrtUnSubscribeReport((uint64_t)server, calls));
    return finish();
}
