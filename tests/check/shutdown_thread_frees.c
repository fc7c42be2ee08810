/* CHECK: FERRY-USE-AFTER-FREE: a thread frees the weights at shutdown, and the thread that serves requests
 * makes one more synchronous copy from them. */
#include "kit.h"

enum { LEN = 4096 };

static unsigned char *weights;
static sem_t served;

static void *shut_down(void *unused)
{
    FIX(kit_wait(&served);)
    TRY(aclrtSetDevice(0));
    TRY(aclrtFree(weights)); /* WORK */
    TRY(aclrtResetDevice(0));
    return unused;
}

int main(void)
{
    begin();
    static unsigned char answer[LEN];
    weights = device_memory(LEN);
    sem_init(&served, 0, 0);
    pthread_t thread = start(shut_down, NULL);
    BUG(join(thread);)
    aclError code = aclrtMemcpy(answer, LEN, weights, LEN, D2H); /* ACCESS */
    THAT((code == ACL_SUCCESS) == IS_FIXED);
    sem_post(&served);
    FIX(join(thread);)
    return finish();
}
