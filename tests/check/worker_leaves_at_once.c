/* CHECK: FERRY-LOST: a worker thread saves its state to the device and ends the process by _exit, without
 * a wait for the copy. */
#include "kit.h"

enum { LEN = 1 << 20 };

static void *save(void *unused)
{
    TRY(aclrtSetDevice(0));
    aclrtStream stream = new_stream();
    unsigned char *state = page_locked(LEN), *device = raw_device(LEN);
    TRY(aclrtMemcpyAsync(device, LEN, state, LEN, H2D, stream)); /* WORK ACCESS */
    FIX(TRY(aclrtSynchronizeDevice());)
    _exit(0);
    return unused;
}

int main(void)
{
    begin();
    join(start(save, NULL));
    return finish();
}
