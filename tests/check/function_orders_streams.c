/* CHECK: FERRY-STREAM-RACE: the main thread submits the second half of a job when a host function has told
 * it that the first half is done. The function runs in a stream that does not wait for the first half. */
#include "kit.h"

enum { LEN = 4096 };

int main(void)
{
    begin();
    sem_t done;
    aclrtStream first = new_stream(), second = new_stream(), functions = new_stream();
    unsigned char *host = page_locked(LEN), *device = device_memory(LEN);
    sem_init(&done, 0, 0);
    TRY(aclrtMemcpyAsync(device, LEN, host, LEN, H2D, first)); /* WORK */
    TRY(aclrtLaunchHostFunc(PICK(functions, first), kit_post, &done));
    kit_wait(&done);
    TRY(aclrtMemsetAsync(device + 1000, 8, 0, 8, second)); /* ACCESS */
    return finish();
}
