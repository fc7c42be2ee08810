/* CHECK: FERRY-HOST-WRITE: one of the 64 blocks of a batch is refilled while the batch is in flight. The
 * blocks lie with gaps between them, and the gaps may be written. */
#include "kit.h"

enum { BLOCKS = 64, BLOCK = 512, STRIDE = 2 * BLOCK };

int main(void)
{
    begin();
    aclrtStream stream = new_stream();
    unsigned char *host = page_locked(BLOCKS * STRIDE), *device = device_memory(BLOCKS * BLOCK);
    void *dsts[BLOCKS], *srcs[BLOCKS];
    size_t lens[BLOCKS], first = 0, failed = 0;
    aclrtMemcpyBatchAttr attr = {{0, ACL_MEM_LOCATION_TYPE_DEVICE}, {0, ACL_MEM_LOCATION_TYPE_HOST}, {0}};
    for (int i = 0; i < BLOCKS; i++) {
        dsts[i] = device + i * BLOCK;
        srcs[i] = host + i * STRIDE;
        lens[i] = BLOCK;
    }
    TRY(aclrtMemcpyBatchAsync(dsts, lens, srcs, lens, BLOCKS, &attr, &first, 1, &failed, stream)); /* WORK */
    host[40 * STRIDE + PICK(0, BLOCK)] = 4; /* ACCESS */
    return finish();
}
