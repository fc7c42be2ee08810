/* CHECK: FERRY-HOST-READ: a host function tells the main thread that the result is there, but it was
 * launched before the copy. */
/* NEEDS: userfaultfd */
#include "kit.h"

enum { LEN = 4096 };

int main(void)
{
    begin();
    sem_t done;
    aclrtStream stream = new_stream();
    unsigned char *host = page_locked(LEN), *device = device_memory(LEN);
    sem_init(&done, 0, 0);
    BUG(TRY(aclrtLaunchHostFunc(stream, kit_post, &done));)
    TRY(aclrtMemcpyAsync(host, LEN, device, LEN, D2H, stream)); /* WORK */
    FIX(TRY(aclrtLaunchHostFunc(stream, kit_post, &done));)
    kit_wait(&done);
    unsigned char value = host[77]; /* ACCESS */
    printf("%d\n", value);
    return finish();
}
