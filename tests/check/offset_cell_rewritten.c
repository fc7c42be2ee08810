/* CHECK: FERRY-HOST-WRITE: a copy reads its addresses from two cells in page-locked memory when it runs. The
 * cell of the source is written anew before that was waited for. */
/* NEEDS: userfaultfd */
#include "kit.h"

enum { LEN = 4096 };

int main(void)
{
    begin();
    aclrtStream stream = new_stream();
    unsigned char *dst = device_memory(LEN), *src = device_memory(LEN), *next = device_memory(LEN);
    void **cells = (void **)page_locked(2 * sizeof(void *));
    const void **from = (const void **)(cells + 1);
    cells[0] = dst;
    cells[1] = src;
    TRY(aclrtMemcpyAsyncWithOffset(cells, LEN, 0, from, LEN, 0, INNER, stream)); /* WORK */
    FIX(TRY(aclrtSynchronizeStream(stream));)
    cells[1] = next; /* ACCESS */
    TRY(aclrtMemcpyAsyncWithOffset(cells, LEN, 0, from, LEN, 0, INNER, stream));
    return finish();
}
