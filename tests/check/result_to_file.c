/* CHECK: FERRY-HOST-READ: write(2) stores a result in a file before its download is joined: the kernel
 * reads it. */
#include <fcntl.h>

#include "kit.h"

enum { LEN = 3 * 4096 };

int main(void)
{
    begin();
    aclrtStream stream = new_stream();
    aclrtEvent ready = new_event();
    unsigned char *result = page_locked(LEN), *device = device_memory(LEN);
    FILE *file = tmpfile();
    THAT(file != NULL);
    TRY(aclrtMemcpyAsync(result, LEN, device, LEN, D2H, stream)); /* WORK */
    TRY(aclrtRecordEvent(ready, stream));
    FIX(TRY(aclrtSynchronizeEvent(ready));)
    THAT(write(fileno(file), result, LEN) == LEN); /* ACCESS */
    return finish();
}
