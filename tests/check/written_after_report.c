/* CHECK: FERRY-HOST-WRITE: a thread serves its own stream. As soon as the callback behind the first upload
 * has run, it fills the buffer of the second one, which the stream only comes to now. */
/* NEEDS: userfaultfd */
#include "kit.h"

enum { LEN = 4096 };

static int is_first_up;

static void note(void *unused)
{
    (void)unused;
    is_first_up = 1;
}

int main(void)
{
    begin();
    aclrtStream stream = new_stream();
    unsigned char *first = page_locked(LEN), *second = page_locked(LEN), *device = device_memory(2 * LEN);
    TRY(aclrtSubscribeReport((uint64_t)pthread_self(), stream));
    TRY(aclrtMemcpyAsync(device, LEN, first, LEN, H2D, stream));
    TRY(aclrtLaunchCallback(note, NULL, ACL_CALLBACK_BLOCK, stream));
    TRY(aclrtMemcpyAsync(device + LEN, LEN, second, LEN, H2D, stream)); /* WORK */
    TRY(aclrtProcessReport(-1));
    THAT(is_first_up);
    first[10] = 3;
    FIX(TRY(aclrtSynchronizeStream(stream));)
    second[10] = 3; /* ACCESS */
    TRY(aclrtSynchronizeStream(stream));
    TRY(aclrtUnSubscribeReport((uint64_t)pthread_self(), stream));
    return finish();
}
