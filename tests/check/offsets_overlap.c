/* CHECK: FERRY-STREAM-RACE: two copies with offsets go through the same pointer cell into one buffer, and
 * their ranges share ten bytes. */
#include "kit.h"

enum { LEN = 1000, PART = 400 };

static const void **cell_of(void *address)
{
    void *cell = raw_device(sizeof address);
    TRY(aclrtMemcpy(cell, sizeof address, &address, sizeof address, H2D));
    return (const void **)cell;
}

int main(void)
{
    begin();
    aclrtStream one = new_stream(), two = new_stream();
    void **to = (void **)cell_of(device_memory(LEN));
    const void **from = cell_of(device_memory(LEN));
    size_t second = PICK(PART - 10, PART);
    TRY(aclrtMemcpyAsyncWithOffset(to, LEN, 0, from, PART, 0, INNER, one)); /* WORK */
    TRY(aclrtMemcpyAsyncWithOffset(to, LEN, second, from, PART, 0, INNER, two)); /* ACCESS */
    return finish();
}
