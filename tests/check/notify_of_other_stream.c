/* CHECK: FERRY-STREAM-RACE: the notify that a consumer waits for is recorded by a stream that has nothing
 * to do with the upload. */
#include "kit.h"

enum { LEN = 4096 };

int main(void)
{
    begin();
    aclrtNotify notify = NULL;
    aclrtStream loads = new_stream(), logs = new_stream(), steps = new_stream();
    unsigned char *host = page_locked(LEN), *input = device_memory(LEN), *state = device_memory(LEN);
    TRY(aclrtCreateNotify(&notify, ACL_NOTIFY_DEFAULT));
    TRY(aclrtMemcpyAsync(input, LEN, host, LEN, H2D, loads)); /* WORK */
    TRY(aclrtRecordNotify(notify, PICK(logs, loads)));
    TRY(aclrtWaitAndResetNotify(notify, steps, 0));
    TRY(aclrtMemcpyAsync(state, LEN, input, LEN, D2D, steps)); /* ACCESS */
    TRY(aclrtSynchronizeDevice());
    TRY(aclrtDestroyNotify(notify));
    return finish();
}
