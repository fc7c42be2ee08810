// A program may end whenever it likes: with copies queued, a stream held by a host function that never comes
// back, and a thread waiting for it. It ends with 0 and does not hang.
#include "kit.h"

enum { LEN = 1 << 20, COPIES = 200 };

static struct gate gate = GATE;
static aclrtStream held;
static int waiting;

static void *wait_for_ever(void *context)
{
    OK(aclrtSetCurrentContext(context));
    watch_set(&waiting);
    // Held streams end with the program, not before.
    (void)aclrtSynchronizeStream(held);
    return NULL;
}

int main(void)
{
    unsigned char *from, *device;
    aclrtStream busy = NULL;
    aclrtContext context = NULL;
    pthread_t thread;
    int i;
    begin();
    from = pinned(1, LEN), device = device_memory(2, LEN);
    OK(aclrtCreateStream(&held));
    OK(aclrtCreateStream(&busy));
    OK(aclrtGetCurrentContext(&context));
    gate_shut(&gate, held);
    for (i = 0; i < COPIES; i++) {
        OK(aclrtMemcpyAsync(device, LEN, from, LEN, H2D, held));
        OK(aclrtMemcpyAsync(device, LEN, from, LEN, H2D, busy));
    }
    THAT(pthread_create(&thread, NULL, wait_for_ever, context) == 0);
    while (!watch_get(&waiting)) {
        sched_yield();
    }
    printf("ok: leaving with copies in flight\n");
    return 0;
}
