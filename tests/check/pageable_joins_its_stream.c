/* CHECK: FERRY-HOST-WRITE: an asynchronous copy of pageable memory waits for its own stream, and the
 * program takes it for a wait for all streams. */
/* NEEDS: userfaultfd */
#include "kit.h"

enum { LEN = 2 * 4096 };

struct header {
    long sequence;
    char name[24];
};

int main(void)
{
    begin();
    aclrtStream bulk = new_stream(), control = new_stream();
    unsigned char *host = page_locked(LEN), *device = device_memory(LEN + sizeof(struct header));
    struct header header = {7, "header"};
    TRY(aclrtMemcpyAsync(device, LEN, host, LEN, H2D, bulk)); /* WORK */
    TRY(aclrtMemcpyAsync(device + LEN, sizeof header, &header, sizeof header, H2D, PICK(control, bulk)));
    memmove(host, host + 1, 100); /* ACCESS */
    return finish();
}
