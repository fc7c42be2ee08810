/* CHECK: FERRY-BATCH-RACE: a synchronous batch brings rows to the host, and the list of rows names one
 * destination twice. That two pieces have the same source is fine. */
#include "kit.h"

enum { ROWS = 5, ROW = 128 };

int main(void)
{
    begin();
    static const int from[ROWS] = {0, 2, 2, 4, 1}, to[ROWS] = {4, 3, PICK(0, 2), 0, 1};
    unsigned char *host = page_locked(ROWS * ROW), *device = device_memory(ROWS * ROW);
    void *dsts[ROWS], *srcs[ROWS];
    size_t sizes[ROWS], first = 0;
    aclrtMemcpyBatchAttr attr = {{0, ACL_MEM_LOCATION_TYPE_HOST}, {0, ACL_MEM_LOCATION_TYPE_DEVICE}, {0}};
    for (int i = 0; i < ROWS; i++) {
        dsts[i] = host + to[i] * ROW;
        srcs[i] = device + from[i] * ROW;
        sizes[i] = ROW;
    }
    TRY(aclrtMemcpyBatchV2(dsts, sizes, srcs, sizes, ROWS, &attr, &first, 1)); /* WORK ACCESS */
    return finish();
}
