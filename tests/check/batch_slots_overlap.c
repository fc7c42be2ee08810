/* CHECK: FERRY-BATCH-RACE: the pieces of a batch are laid out with a pitch that is smaller than a piece,
 * so each destination overlaps the next one. */
#include "kit.h"

enum { COUNT = 8, PIECE = 300, PITCH = 256, ROOM = 512 };

int main(void)
{
    begin();
    aclrtStream stream = new_stream();
    unsigned char *host = page_locked(COUNT * PIECE), *device = device_memory(COUNT * ROOM);
    void *dsts[COUNT], *srcs[COUNT];
    size_t lens[COUNT], first = 0;
    aclrtMemcpyBatchAttr attr = {{0, ACL_MEM_LOCATION_TYPE_DEVICE}, {0, ACL_MEM_LOCATION_TYPE_HOST}, {0}};
    for (int i = 0; i < COUNT; i++) {
        dsts[i] = device + i * PICK(PITCH, ROOM);
        srcs[i] = host + i * PIECE;
        lens[i] = PIECE;
    }
    TRY(aclrtMemcpyBatchAsyncV2(dsts, lens, srcs, lens, COUNT, &attr, &first, 1, stream)); /* WORK ACCESS */
    return finish();
}
