/* CHECK: FERRY-STREAM-RACE: one stream uploads and another copies the bytes on, and the second never waits
 * for the event that the first has recorded. */
#include "kit.h"

enum { LEN = 4096 };

int main(void)
{
    begin();
    aclrtStream loads = new_stream(), steps = new_stream();
    aclrtEvent loaded = new_event();
    unsigned char *host = page_locked(LEN), *input = device_memory(LEN), *state = device_memory(LEN);
    TRY(aclrtMemcpyAsync(input, LEN, host, LEN, H2D, loads)); /* WORK */
    TRY(aclrtRecordEvent(loaded, loads));
    FIX(TRY(aclrtStreamWaitEvent(steps, loaded));)
    TRY(aclrtMemcpyAsync(state, LEN, input, LEN, D2D, steps)); /* ACCESS */
    return finish();
}
