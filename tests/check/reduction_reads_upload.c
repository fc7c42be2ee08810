/* CHECK: FERRY-STREAM-RACE: a reduction adds a gradient that another stream is still uploading. The query
 * loop in front of it asks the reduction's own stream. */
#include "kit.h"

enum { LEN = 2048, MIN = ACL_RT_MEMCPY_SDMA_AUTOMATIC_MIN };

static void poll(aclrtStream stream)
{
    aclrtStreamStatus status = ACL_STREAM_STATUS_NOT_READY;
    while (status != ACL_STREAM_STATUS_COMPLETE) {
        TRY(aclrtStreamQuery(stream, &status));
    }
}

int main(void)
{
    begin();
    aclrtStream loads = new_stream(), sums = new_stream();
    unsigned char *host = page_locked(LEN), *gradient = device_memory(LEN), *sum = device_memory(LEN);
    TRY(aclrtMemcpyAsync(gradient, LEN, host, LEN, H2D, loads)); /* WORK */
    poll(PICK(sums, loads));
    TRY(aclrtReduceAsync(sum, gradient, LEN, (aclrtReduceKind)MIN, ACL_FLOAT, sums, NULL)); /* ACCESS */
    return finish();
}
