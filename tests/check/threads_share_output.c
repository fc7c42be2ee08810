/* CHECK: FERRY-STREAM-RACE: two threads, each with a stream of its own, upload their rows of one output;
 * both were told the same row number. */
#include "kit.h"

enum { ROW = 2048 };

static unsigned char *output;
static pthread_barrier_t handed_over;

static void *upload(void *with)
{
    int row = *(int *)with;
    TRY(aclrtSetDevice(0));
    aclrtStream stream = new_stream();
    unsigned char *host = page_locked(ROW);
    TRY(aclrtMemcpyAsync(output + row * ROW, ROW, host, ROW, H2D, stream)); /* WORK ACCESS */
    pthread_barrier_wait(&handed_over); /* Neither waits before both have handed over their copies. */
    TRY(aclrtSynchronizeStream(stream));
    TRY(aclrtResetDevice(0));
    return NULL;
}

int main(void)
{
    begin();
    int rows[2] = {1, PICK(1, 0)};
    output = device_memory(2 * ROW);
    pthread_barrier_init(&handed_over, NULL, 2);
    pthread_t one = start(upload, &rows[0]), two = start(upload, &rows[1]);
    join(one);
    join(two);
    return finish();
}
