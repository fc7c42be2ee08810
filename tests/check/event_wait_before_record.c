/* CHECK: FERRY-STREAM-RACE: in a loop, the consumer's wait is submitted before the producer's record of
 * the same round, so it waits for the round before. */
#include "kit.h"

enum { ROUNDS = 3, LEN = 4096 };

int main(void)
{
    begin();
    aclrtStream producer = new_stream(), consumer = new_stream();
    aclrtEvent produced = new_event();
    unsigned char *host = page_locked(ROUNDS * LEN), *shared = device_memory(LEN), *out = device_memory(LEN);
    TRY(aclrtRecordEvent(produced, producer));
    for (int round = 0; round < ROUNDS; round++) {
        BUG(TRY(aclrtStreamWaitEvent(consumer, produced));)
        TRY(aclrtMemcpyAsync(shared, LEN, host + round * LEN, LEN, H2D, producer)); /* WORK */
        TRY(aclrtRecordEvent(produced, producer));
        FIX(TRY(aclrtStreamWaitEvent(consumer, produced));)
        TRY(aclrtMemcpyAsync(out, LEN, shared, LEN, D2D, consumer)); /* ACCESS */
        /* The next round may overwrite what this one has used. */
        TRY(aclrtSynchronizeStream(consumer));
        TRY(aclrtSynchronizeStream(producer));
    }
    return finish();
}
