/* CHECK: FERRY-HOST-READ: a thread that sends replies is given a result whose download has only been asked
 * for, and hands it to send(2). */
/* NEEDS: userfaultfd */
#include <sys/socket.h>

#include "kit.h"

enum { LEN = 700 };

static sem_t has_reply;
static unsigned char *reply;
static int ends[2];

static void *send_reply(void *unused)
{
    kit_wait(&has_reply);
    THAT(send(ends[0], reply, LEN, 0) == LEN); /* ACCESS */
    return unused;
}

int main(void)
{
    begin();
    aclrtStream stream = new_stream();
    unsigned char *device = device_memory(LEN);
    reply = page_locked(LEN);
    sem_init(&has_reply, 0, 0);
    THAT(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
    pthread_t thread = start(send_reply, NULL);
    TRY(aclrtMemcpyAsync(reply, LEN, device, LEN, D2H, stream)); /* WORK */
    FIX(TRY(aclrtSynchronizeStream(stream));)
    sem_post(&has_reply);
    join(thread);
    return finish();
}
