/* CHECK: FERRY-HOST-READ: a result is read right after its download was asked for. */
/* NEEDS: userfaultfd */
#include "kit.h"

enum { COUNT = 1000, LEN = COUNT * sizeof(int) };

int main(void)
{
    begin();
    aclrtStream stream = new_stream();
    int *result = (int *)(void *)page_locked(LEN);
    unsigned char *device = device_memory(LEN);
    TRY(aclrtMemcpyAsync(result, LEN, device, LEN, D2H, stream)); /* WORK */
    FIX(TRY(aclrtSynchronizeStream(stream));)
    int last = result[COUNT - 1]; /* ACCESS */
    printf("%d\n", last);
    return finish();
}
