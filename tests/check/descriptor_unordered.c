/* CHECK: FERRY-STREAM-RACE: a copy by descriptor reads what another stream uploads. Its addresses stand in
 * device memory, so the call does not show them. */
#include "kit.h"

enum { LEN = 3000 };

int main(void)
{
    begin();
    size_t size = 0;
    aclrtStream loads = new_stream(), copies = new_stream();
    unsigned char *host = page_locked(LEN), *input = device_memory(LEN), *output = device_memory(LEN);
    TRY(aclrtGetMemcpyDescSize(INNER, &size));
    void *desc = raw_device(size);
    TRY(aclrtSetMemcpyDesc(desc, INNER, input, output, LEN, NULL));
    TRY(aclrtMemcpyAsync(input, LEN, host, LEN, H2D, loads)); /* WORK */
    FIX(TRY(aclrtSynchronizeStream(loads));)
    TRY(aclrtMemcpyAsyncWithDesc(desc, INNER, copies)); /* ACCESS */
    return finish();
}
