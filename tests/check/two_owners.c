/* CHECK: FERRY-DOUBLE-FREE: two threads share a page-locked buffer by a reference count, and one of them
 * takes no reference of its own: both come to zero. */
#include "kit.h"

static unsigned char *shared;
static int references = 1, zeros;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void release(void)
{
    pthread_mutex_lock(&lock);
    references--;
    if (references <= 0) {
        zeros++;
        aclError code = aclrtFreeHost(shared); /* ACCESS WORK */
        THAT((code == ACL_SUCCESS) == (zeros == 1));
    }
    pthread_mutex_unlock(&lock);
}

static void *use(void *unused)
{
    release();
    return unused;
}

int main(void)
{
    begin();
    shared = page_locked(4096);
    FIX(references++;)
    pthread_t thread = start(use, NULL);
    release();
    join(thread);
    return finish();
}
