/* CHECK: FERRY-STREAM-RACE: two streams add their parts to one sum. Each addition reads and writes the
 * sum, and nothing orders them. */
#include "kit.h"

enum { LEN = 2048, SUM = ACL_RT_MEMCPY_SDMA_AUTOMATIC_SUM };

static void add(unsigned char *sum, unsigned char *part, aclrtStream stream)
{
    TRY(aclrtReduceAsync(sum, part, LEN, (aclrtReduceKind)SUM, ACL_FLOAT, stream, NULL)); /* WORK ACCESS */
}

int main(void)
{
    begin();
    aclrtStream streams[2] = {new_stream(), new_stream()};
    aclrtEvent added = new_event();
    unsigned char *sum = device_memory(LEN), *parts[2] = {device_memory(LEN), device_memory(LEN)};
    add(sum, parts[0], streams[0]);
    TRY(aclrtRecordEvent(added, streams[0]));
    FIX(TRY(aclrtStreamWaitEvent(streams[1], added));)
    add(sum, parts[1], streams[1]);
    return finish();
}
