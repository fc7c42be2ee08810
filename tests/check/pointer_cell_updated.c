/* CHECK: FERRY-STREAM-RACE: a copy reads its destination from a cell of device memory when it runs, and
 * another stream puts the next address there, which nothing orders behind it. */
#include "kit.h"

enum { LEN = 4096 };

int main(void)
{
    begin();
    aclrtStream stream = new_stream(), updates = new_stream();
    unsigned char *src = device_memory(LEN), *slots = device_memory(2 * LEN);
    void **addresses = (void **)page_locked(3 * sizeof(void *));
    void **cells = (void **)device_memory(2 * sizeof(void *));
    const void **from = (const void **)cells + 1;
    addresses[0] = slots, addresses[1] = src, addresses[2] = slots + LEN;
    TRY(aclrtMemcpy(cells, 2 * sizeof(void *), addresses, 2 * sizeof(void *), H2D));
    TRY(aclrtMemcpyAsyncWithOffset(cells, LEN, 0, from, LEN, 0, INNER, stream)); /* WORK */
    FIX(TRY(aclrtSynchronizeStream(stream));)
    TRY(aclrtMemcpyAsync(cells, sizeof(void *), addresses + 2, sizeof(void *), H2D, updates)); /* ACCESS */
    return finish();
}
