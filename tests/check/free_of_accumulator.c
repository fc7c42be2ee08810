/* CHECK: FERRY-FREE: the accumulator of a reduction is freed after the stream of its download was
 * synchronised, which does not wait for a second reduction in another stream. The fixed twin frees with
 * the call that waits for the device. */
#include "kit.h"

enum { LEN = 1024 };

int main(void)
{
    begin();
    aclrtStream sums = new_stream(), more = new_stream();
    aclrtEvent loaded = new_event();
    unsigned char *host = page_locked(LEN), *sum = device_memory(LEN), *part = device_memory(LEN);
    TRY(aclrtReduceAsync(sum, part, LEN, ACL_RT_MEMCPY_SDMA_AUTOMATIC_SUM, ACL_FLOAT, sums, NULL));
    TRY(aclrtMemcpyAsync(host, LEN, sum, LEN, D2H, sums));
    TRY(aclrtRecordEvent(loaded, sums));
    TRY(aclrtStreamWaitEvent(more, loaded));
    TRY(aclrtReduceAsync(sum, part, LEN, ACL_RT_MEMCPY_SDMA_AUTOMATIC_MAX, ACL_FLOAT, more, NULL)); /* WORK */
    TRY(aclrtSynchronizeStream(sums));
    TRY(IS_FIXED ? aclrtFreeWithDevSync(sum) : aclrtFree(sum)); /* ACCESS */
    return finish();
}
