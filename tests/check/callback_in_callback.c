/* CHECK: FERRY-HOST-WRITE: a callback has its thread run the next callback, of another stream, and then fills
 * a buffer: of a copy behind itself in the fixed twin, and of one behind the other callback, which has
 * returned, in this one. */
/* NEEDS: userfaultfd */
#include "kit.h"

enum { LEN = 4096 };

static struct gate gate;
static int has_noted;

static void note(void *unused)
{
    (void)unused;
    has_noted = 1;
}

static void report_and_fill(void *host)
{
    gate_open(&gate);
    TRY(aclrtProcessReport(-1));
    THAT(has_noted);
    memset(host, 3, LEN); /* ACCESS */
}

int main(void)
{
    begin();
    aclrtStream outer = new_stream(), inner = new_stream();
    unsigned char *host = page_locked(LEN), *device = device_memory(LEN);
    TRY(aclrtSubscribeReport((uint64_t)pthread_self(), outer));
    TRY(aclrtSubscribeReport((uint64_t)pthread_self(), inner));
    gate_shut(&gate, inner);
    TRY(aclrtLaunchCallback(report_and_fill, host, ACL_CALLBACK_BLOCK, outer));
    TRY(aclrtLaunchCallback(note, NULL, ACL_CALLBACK_BLOCK, inner));
    TRY(aclrtMemcpyAsync(device, LEN, host, LEN, H2D, PICK(inner, outer))); /* WORK */
    TRY(aclrtProcessReport(-1));
    TRY(aclrtSynchronizeDevice());
    TRY(aclrtUnSubscribeReport((uint64_t)pthread_self(), outer));
    TRY(aclrtUnSubscribeReport((uint64_t)pthread_self(), inner));
    return finish();
}
