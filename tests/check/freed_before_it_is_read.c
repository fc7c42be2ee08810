/* CHECK: FERRY-FREE: the destination that a descriptor names is freed while the copy is in flight. The copy
 * reads the descriptor when it runs, here behind the free, and fails: the free is what is wrong. */
/* OPTIONS: --schedule late */
#include "kit.h"

enum { LEN = 4096 };

int main(void)
{
    size_t size = 0;
    begin();
    aclrtStream stream = new_stream();
    unsigned char *src = device_memory(LEN), *dst = device_memory(LEN);
    TRY(aclrtGetMemcpyDescSize(INNER, &size));
    unsigned char *descriptor = raw_device(size);
    TRY(aclrtSetMemcpyDesc(descriptor, INNER, src, dst, LEN, NULL));
    TRY(aclrtMemcpyAsyncWithDesc(descriptor, INNER, stream)); /* WORK */
    FIX(TRY(aclrtSynchronizeStream(stream));)
    TRY(aclrtFree(dst)); /* ACCESS */
    int code = aclrtSynchronizeStream(stream);
    THAT(code == ACL_SUCCESS || code == ACL_ERROR_RT_PARAM_INVALID);
    return finish();
}
