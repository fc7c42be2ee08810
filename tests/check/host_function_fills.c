/* CHECK: FERRY-HOST-WRITE: a host function fills the source of a copy. It is launched on the copy's stream
 * in front of the copy in the fixed twin, and on another stream in this one. */
#include "kit.h"

enum { LEN = 1000 };

static sem_t done;

static void fill(void *host)
{
    memset(host, 8, LEN); /* ACCESS */
    sem_post(&done);
}

int main(void)
{
    begin();
    struct gate gate;
    aclrtStream stream = new_stream(), other = new_stream();
    unsigned char *host = page_locked(LEN), *device = device_memory(LEN);
    sem_init(&done, 0, 0);
    /* So that the function runs when the copy has been handed over, in either twin. */
    gate_shut(&gate, PICK(other, stream));
    TRY(aclrtLaunchHostFunc(PICK(other, stream), fill, host));
    TRY(aclrtMemcpyAsync(device, LEN, host, LEN, H2D, stream)); /* WORK */
    gate_open(&gate);
    kit_wait(&done);
    return finish();
}
