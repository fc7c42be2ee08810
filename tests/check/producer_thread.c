/* CHECK: FERRY-HOST-WRITE: a producer thread is told that the buffer is free when the copy has been handed
 * over, not when it is done, and fills it again. */
#include "kit.h"

enum { ROUNDS = 3, LEN = 16384 };

static sem_t is_free, is_full;
static unsigned char *buffer;

static void *produce(void *unused)
{
    for (int round = 0; round < ROUNDS; round++) {
        kit_wait(&is_free);
        memset(buffer, round, LEN); /* ACCESS */
        sem_post(&is_full);
    }
    return unused;
}

int main(void)
{
    begin();
    aclrtStream stream = new_stream();
    unsigned char *device = device_memory(LEN);
    buffer = page_locked(LEN);
    sem_init(&is_free, 0, 1);
    sem_init(&is_full, 0, 0);
    pthread_t producer = start(produce, NULL);
    for (int round = 0; round < ROUNDS; round++) {
        kit_wait(&is_full);
        TRY(aclrtMemcpyAsync(device, LEN, buffer, LEN, H2D, stream)); /* WORK */
        FIX(TRY(aclrtSynchronizeStream(stream));)
        sem_post(&is_free);
    }
    join(producer);
    return finish();
}
