/* CHECK: FERRY-HOST-READ: one event serves two streams. Its second record replaces the first, so waiting
 * for it says nothing about the first stream any more. */
#include "kit.h"

enum { LEN = 4096 };

int main(void)
{
    begin();
    aclrtStream one = new_stream(), two = new_stream();
    aclrtEvent first = new_event(), second = PICK(first, new_event());
    unsigned char *a = page_locked(LEN), *b = page_locked(LEN), *device = device_memory(LEN);
    TRY(aclrtMemcpyAsync(a, LEN, device, LEN, D2H, one)); /* WORK */
    TRY(aclrtRecordEvent(first, one));
    TRY(aclrtMemcpyAsync(b, LEN, device, LEN, D2H, two));
    TRY(aclrtRecordEvent(second, two));
    TRY(aclrtSynchronizeEvent(first));
    TRY(aclrtSynchronizeEvent(second));
    unsigned char value = a[3]; /* ACCESS */
    printf("%d %d\n", value, b[3]);
    return finish();
}
