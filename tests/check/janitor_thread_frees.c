/* CHECK: FERRY-FREE: a janitor thread frees the device buffers that are on its list; a buffer is put there
 * when its copy has been handed over. */
#include "kit.h"

enum { BUFFERS = 3, LEN = 4096 };

static void *list[BUFFERS];
static sem_t listed;

static void *clean(void *unused)
{
    TRY(aclrtSetDevice(0));
    for (int i = 0; i < BUFFERS; i++) {
        kit_wait(&listed);
        TRY(aclrtFree(list[i])); /* ACCESS */
    }
    TRY(aclrtResetDevice(0));
    return unused;
}

int main(void)
{
    begin();
    aclrtStream stream = new_stream();
    unsigned char *host = page_locked(BUFFERS * LEN);
    sem_init(&listed, 0, 0);
    pthread_t janitor = start(clean, NULL);
    for (int i = 0; i < BUFFERS; i++) {
        list[i] = device_memory(LEN);
        TRY(aclrtMemcpyAsync(host + i * LEN, LEN, list[i], LEN, D2H, stream)); /* WORK */
        FIX(TRY(aclrtSynchronizeStream(stream));)
        sem_post(&listed);
    }
    join(janitor);
    return finish();
}
