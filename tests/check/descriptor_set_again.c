/* CHECK: FERRY-STREAM-RACE: a descriptor is set for the next copy while the copy before it, which reads the
 * descriptor when it runs, is in flight. */
#include "kit.h"

enum { LEN = 4096 };

int main(void)
{
    size_t size = 0;
    begin();
    aclrtStream stream = new_stream();
    unsigned char *src = device_memory(LEN), *first = device_memory(LEN), *second = device_memory(LEN);
    TRY(aclrtGetMemcpyDescSize(INNER, &size));
    unsigned char *descriptor = raw_device(size);
    TRY(aclrtSetMemcpyDesc(descriptor, INNER, src, first, LEN, NULL));
    TRY(aclrtMemcpyAsyncWithDesc(descriptor, INNER, stream)); /* WORK */
    FIX(TRY(aclrtSynchronizeStream(stream));)
    TRY(aclrtSetMemcpyDesc(descriptor, INNER, src, second, LEN, NULL)); /* ACCESS */
    TRY(aclrtMemcpyAsyncWithDesc(descriptor, INNER, stream));
    return finish();
}
