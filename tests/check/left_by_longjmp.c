/* CHECK: FERRY-HOST-WRITE: a callback that holds its stream is left by longjmp. From the next call on the
 * thread does not run it any more, and the copy behind it may begin. */
/* NEEDS: userfaultfd */
/* OPTIONS: --schedule late */
#include <setjmp.h>

#include "kit.h"

enum { LEN = 4096 };

static jmp_buf out;

static void leave(void *unused)
{
    (void)unused;
    longjmp(out, 1);
}

int main(void)
{
    begin();
    static aclrtStream stream;
    static unsigned char *host, *device;
    stream = new_stream();
    host = page_locked(LEN);
    device = device_memory(LEN);
    TRY(aclrtSubscribeReport((uint64_t)pthread_self(), stream));
    TRY(aclrtLaunchCallback(leave, NULL, ACL_CALLBACK_BLOCK, stream));
    TRY(aclrtMemcpyAsync(device, LEN, host, LEN, H2D, stream)); /* WORK */
    if (setjmp(out) == 0)
        aclrtProcessReport(-1);
    int32_t current;
    BUG(TRY(aclrtGetDevice(&current));)
    FIX(TRY(aclrtSynchronizeStream(stream));)
    host[10] = 3; /* ACCESS */
    FIX(TRY(aclrtGetDevice(&current));)
    TRY(aclrtSynchronizeStream(stream));
    TRY(aclrtUnSubscribeReport((uint64_t)pthread_self(), stream));
    return finish();
}
