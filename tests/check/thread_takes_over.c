/* CHECK: FERRY-STREAM-RACE: a loader thread hands an event to the thread that computes. It records the
 * event between its two uploads, and the second one is what the other thread's copy reads. */
#include "kit.h"

enum { LEN = 4096 };

static aclrtEvent loaded;
static unsigned char *host, *weights;
static sem_t is_loaded;

static void *load(void *unused)
{
    TRY(aclrtSetDevice(0));
    aclrtStream stream = new_stream();
    TRY(aclrtMemcpyAsync(weights, LEN, host, LEN, H2D, stream));
    BUG(TRY(aclrtRecordEvent(loaded, stream));)
    TRY(aclrtMemcpyAsync(weights + LEN, LEN, host, LEN, H2D, stream)); /* WORK */
    FIX(TRY(aclrtRecordEvent(loaded, stream));)
    sem_post(&is_loaded);
    TRY(aclrtResetDevice(0));
    return unused;
}

int main(void)
{
    begin();
    aclrtStream stream = new_stream();
    loaded = new_event();
    host = page_locked(LEN);
    weights = device_memory(2 * LEN);
    unsigned char *used = device_memory(2 * LEN);
    sem_init(&is_loaded, 0, 0);
    pthread_t loader = start(load, NULL);
    kit_wait(&is_loaded);
    TRY(aclrtStreamWaitEvent(stream, loaded));
    TRY(aclrtMemcpyAsync(used, 2 * LEN, weights, 2 * LEN, D2D, stream)); /* ACCESS */
    join(loader);
    return finish();
}
