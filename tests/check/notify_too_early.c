/* CHECK: FERRY-HOST-READ: the stream that is synchronised waits for a notify of the copying stream, which
 * is recorded before the copy and not after it. */
/* NEEDS: userfaultfd */
#include "kit.h"

enum { LEN = 4096 };

int main(void)
{
    begin();
    aclrtNotify notify = NULL;
    aclrtStream copies = new_stream(), waits = new_stream();
    unsigned char *host = page_locked(LEN), *device = device_memory(LEN);
    TRY(aclrtCreateNotify(&notify, ACL_NOTIFY_DEFAULT));
    BUG(TRY(aclrtRecordNotify(notify, copies));)
    TRY(aclrtMemcpyAsync(host, LEN, device, LEN, D2H, copies)); /* WORK */
    FIX(TRY(aclrtRecordNotify(notify, copies));)
    TRY(aclrtWaitAndResetNotify(notify, waits, 0));
    TRY(aclrtSynchronizeStream(waits));
    unsigned char value = host[2000]; /* ACCESS */
    printf("%d\n", value);
    TRY(aclrtSynchronizeStream(copies));
    TRY(aclrtDestroyNotify(notify));
    return finish();
}
